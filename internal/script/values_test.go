package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// answering is a host whose calls have a result.
func answering(result string) fakeHost {
	return fakeHost{call: func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage(result), nil }}
}

func TestValues(t *testing.T) {
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":"ignored"}],"structuredContent":{"a":1}}`: `{"a":1}`,
		`{"content":[{"type":"text","text":" [1, 2] "}]}`:                            `[1,2]`,
		`{"content":[{"type":"text","text":"plain"}]}`:                               `"plain"`,
		`{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`:        `"1\n2"`,
		`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`:          `"x"`,
		`{"structuredContent":{"id":9007199254740993,"a":[-9007199254740993,9007199254740992,1152921504606846976,0.12345678901234567890,1e5,"9007199254740993\"1"]}}`: `{"id":9007199254740993,"a":[-9007199254740993,9007199254740992,1152921504606846976,0.12345678901234568,100000,"9007199254740993\"1"]}`,
		`{"content":[{"type":"text","text":"9007199254740993"}]}`:      `9007199254740993`,
		`{"content":[{"type":"text","text":"12e4567"}]}`:               `"12e4567"`,
		`{"content":[{"type":"text","text":"100000000000000000000"}]}`: `100000000000000000000`,
		`{"content":[]}`: `null`,
		`{}`:             `null`,
		`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`:                              `{"handle":"h1","type":"image","mimeType":"image/png"}`,
		`{"content":[{"type":"text","text":"see"},{"type":"resource_link","uri":"file:///x","name":"x"}]}`: `["see",{"handle":"h1","type":"resource_link","name":"x","uri":"file:///x"}]`,
		`{"content":[{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"hi"}}]}`:   `{"handle":"h1","type":"resource","mimeType":"text/plain","uri":"a:b","text":"hi"}`,
		`{"structuredContent":{"__proto__":{"x":1},"constructor":2}}`:                                      `{"__proto__":{"x":1},"constructor":2}`,
	} {
		o := engine.Run(t.Context(), Script{Code: "return await call('s:t')"}, answering(result), Options{})
		if o.Err != nil || string(o.Value) != want {
			t.Errorf("%s: %s, %v; want %s", result, o.Value, o.Err, want)
		}
	}
}

// overload is an error of a call that may be tried again.
var overload = &CallError{Message: "too many calls", Retry: true}

func TestFailedCalls(t *testing.T) {
	host := fakeHost{call: func(_ context.Context, c Call) (json.RawMessage, error) {
		switch c.Tool {
		case "s:fails":
			return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"disk"},{"type":"text","text":"full"}]}`), nil
		case "s:silent":
			return json.RawMessage(`{"isError":true}`), nil
		case "s:busy":
			return nil, fmt.Errorf("s: %w", overload)
		case "s:broken":
			return json.RawMessage(`[]`), nil
		case "s:large":
			return json.Marshal(map[string]string{"structuredContent": strings.Repeat("x", maxResult)})
		}
		return nil, errors.New("there is no tool " + c.Tool)
	}}
	for tool, want := range map[string]string{
		"s:fails":  `["disk\nfull",false,2]`,
		"s:silent": `["the tool failed without a message",false,2]`,
		"s:busy":   `["s: too many calls",true,2]`,
		"s:large":  `["the result of s:large has 16777218 bytes, which do not fit into the script's memory",false,2]`,
		"s:none":   `["there is no tool s:none",false,2]`,
	} {
		o := engine.Run(t.Context(), Script{Code: "try {\n await call(input) } catch (e) { return [e.message, e.retryable, +/script:(\\d+)/.exec(e.stack)[1]] }", Input: json.RawMessage(`"` + tool + `"`)}, host, Options{})
		if o.Err != nil || string(o.Value) != want || len(o.Calls) != 1 || o.Calls[0].OK || o.Calls[0].Line != 2 {
			t.Errorf("%s: %s, %v, %+v; want %s", tool, o.Value, o.Err, o.Calls, want)
		}
	}
	if o := engine.Run(t.Context(), Script{Code: "await call('s:broken')"}, host, Options{}); o.Err == nil || !strings.Contains(o.Err.Message, "the result can't be read") {
		t.Error(o.Err)
	}
}

func TestResult(t *testing.T) {
	image := `{"type":"image","data":"AA==","mimeType":"image/png"}`
	o := engine.Run(t.Context(), Script{Code: "const a = await call('s:t'), b = await call('s:t'); result(b); result('h1'); result(b); return a.handle + b.handle"},
		answering(`{"content":[`+image+`]}`), Options{})
	if o.Err != nil || string(o.Value) != `"h1h2"` || len(o.Content) != 2 || string(o.Content[0]) != image || engine.Mapped() != 0 {
		t.Errorf("%s, %v, %s, %d", o.Value, o.Err, o.Content, engine.Mapped())
	}
	large := answering(`{"content":[{"type":"image","data":"` + strings.Repeat("A", 6<<20) + `"}]}`)
	o = engine.Run(t.Context(), Script{Code: "for (;;) await call('s:t')"}, large, Options{})
	if o.Err == nil || o.Err.Name != "ToolError" || len(o.Calls) != 3 {
		t.Errorf("%v, %d calls", o.Err, len(o.Calls))
	}
}

// A result has a bounded number of blocks, whatever their names, and a script a bounded number of handles.
// A script that returns nothing says which calls it made.
func TestResultOfNothing(t *testing.T) {
	many := ""
	for i := 4; i <= 20; i++ {
		many += fmt.Sprintf("\nline %d: s:u", i)
	}
	for code, want := range map[string]string{
		"": "The script returned nothing.",
		"const x = await call('s:t');\ncall('s:u', {x}).y": "The script returned nothing: for a value, write \"return\" before it, and \"await\" before each call.\nIt made these calls:\nline 1: s:t\nline 2: s:u",
		"for (let i = 0; i < 22; i++) await call('s:t')" + strings.Repeat("\nawait call('s:u')", 22): "The script returned nothing: for a value, write \"return\" before it, and \"await\" before each call.\nIt made these calls:\n" +
			"line 1: s:t (22 times)\nline 2: s:u\nline 3: s:u" + many + "\nand 3 more",
	} {
		raw := run1(t, code).Result()
		var result struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(raw, &result); err != nil || result.Content[0].Text != want {
			t.Errorf("%q: %s, %v", code, raw, err)
		}
	}
}

func TestManyBlocks(t *testing.T) {
	many := func(n int, block, key, more string) json.RawMessage {
		return json.RawMessage(`{"` + key + `":[` + strings.Repeat(block+",", n-1) + block + "]" + more + "}")
	}
	for _, test := range []struct {
		raw  json.RawMessage
		want string // in the error
	}{
		{many(maxBlocks, "{}", "content", ""), "<nil>"},
		{many(maxBlocks, `{"type":"text"}`, "content", ""), "<nil>"},
		{many(maxBlocks+1, `{"type":"text"}`, "content", ""), "more than 10000 blocks"},
		{many(8<<20, "{}", "content", ""), "more than 10000 blocks"},
		{many(8<<20, "{}", "CONTENT", ""), "more than 10000 blocks"},
		{many(8<<20, "{}", "content", `,"isError":true`), "more than 10000 blocks"},
		{many(8<<20, "{}", "content", `,"content":[]`), "<nil>"},
		{json.RawMessage(`{"content":"x"}`), "can't be read: invalid JSON"},
		{json.RawMessage(`{"content":[1]}`), "can't be read: json"},
		{json.RawMessage(`{"content":null}`), "<nil>"},
	} {
		h := handles{budget: new(budget)}
		h.budget.max.Store(1 << 30)
		if _, err := h.value(test.raw); !strings.Contains(fmt.Sprint(err), test.want) || len(h.blocks) > maxBlocks {
			t.Errorf("%.60s: %v, %d handles; want %s", test.raw, err, len(h.blocks), test.want)
		}
	}
	h := handles{budget: new(budget)}
	h.budget.max.Store(1 << 30)
	var err error
	for n := 0; err == nil && n < 20; n++ {
		_, err = h.value(many(maxBlocks, "{}", "content", ""))
	}
	if err == nil || len(h.blocks) > maxResult/256 {
		t.Errorf("%d handles, %v", len(h.blocks), err)
	}
}

// The host is not asked for a description of half a million tools, or for the tools of a task of megabytes.
func TestLongQuestions(t *testing.T) {
	for code, want := range map[string]string{
		`await describe(["x".repeat(2e6)])`: "describe: its argument has 2000004 bytes as JSON; give at most 1048576",
		`await search("x".repeat(2e6))`:     "search: its argument has 2000002 bytes as JSON; give at most 1048576",
		`await describe([[[]]])`:            "describe: the ids are no list of strings",
		`result("x".repeat(10e6))`:          "is no handle of a call's result",
	} {
		o := run1(t, code)
		if o.Err == nil || !strings.Contains(o.Err.Message, want) || len(o.Err.Message) > 1000 {
			t.Errorf("%s: %.300v, want %s", code, o.Err, want)
		}
	}
}

func FuzzValue(f *testing.F) {
	f.Add(`{"content":[{"type":"text","text":"x"},{"type":"image"}],"structuredContent":null}`)
	f.Add(`{"isError":true,"content":[{"type":"resource","resource":{}}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		h := handles{budget: new(budget)}
		h.budget.max.Store(1 << 20)
		value, err := h.value(json.RawMessage(raw))
		if err == nil && !json.Valid(value) {
			t.Errorf("%q", value)
		}
		if h.close(); h.budget.used.Load() != 0 {
			t.Error("bytes are left")
		}
	})
}

func FuzzUnfenced(f *testing.F) {
	f.Add("```js\nx\n```", "\ufeff x")
	f.Fuzz(func(t *testing.T, code, line string) {
		if got := unfenced("\n```\n" + code + "\n" + line + "\n```\n"); !strings.HasPrefix(got, "\n\n"+code) {
			t.Errorf("%q", got)
		}
	})
}
