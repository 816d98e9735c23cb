package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// keys returns what a listing has beside tools, by their names and URIs.
func keys(l registry.Offer) string {
	var all []string
	for _, p := range l.Prompts {
		all = append(all, p.Name)
	}
	for _, r := range l.Resources {
		all = append(all, r.URI)
	}
	for _, t := range l.Templates {
		all = append(all, t.URI)
	}
	return strings.Join(all, " ")
}

func TestListOthers(t *testing.T) {
	const all = `{"tools":{},"prompts":{}, "resources":{} ,"extensions":{"x/y": {}}}`
	lists := map[string]string{
		"prompts/list{}":             `{"prompts":[{"name":"p1"}],"nextCursor":"2"}`,
		`prompts/list{"cursor":"2"}`: `{"prompts":[{"name":"p2"},{"name":"p1","title":"again"},{"Name":"p3"}]}`,
		"resources/list{}":           `{"resources":[{"uri":"a://b","name":"b"},7,{"uri":"a://b"}]}`,
		"resources/templates/list{}": `{"resourceTemplates":[{"uriTemplate":"a://{x}"},{"uriTemplate":null}]}`,
	}
	tests := map[string]struct {
		capabilities string
		edit         map[string]string // of lists
		remove       string
		want         string
		dropped      string
		warns        int
	}{
		"all":                {all, nil, "", "p1 p2 a://b a://{x}", "prompt p1, prompt #4, resource #2, resource a://b, template #2", 5},
		"prompts alone":      {`{"tools":{},"prompts":{}}`, nil, "", "p1 p2", "prompt p1, prompt #4", 2},
		"resources alone":    {`{"tools":{},"resources":{}}`, nil, "", "a://b a://{x}", "resource #2, resource a://b, template #2", 3},
		"unknown prompts":    {all, nil, "prompts/list{}", "a://b a://{x}", "resource #2, resource a://b, template #2", 3},
		"unknown templates":  {all, nil, "resources/templates/list{}", "p1 p2 a://b", "prompt p1, prompt #4, resource #2, resource a://b", 4},
		"prompts no array":   {all, map[string]string{"prompts/list{}": `{"prompts":{}}`}, "", "a://b a://{x}", "prompt , resource #2, resource a://b, template #2", 4},
		"resources no end":   {all, map[string]string{"resources/list{}": `{"resources":[],"nextCursor":"x"}`, `resources/list{"cursor":"x"}`: `{"resources":[],"nextCursor":"x"}`}, "", "p1 p2 a://{x}", "prompt p1, prompt #4, resource , template #2", 4},
		"templates are null": {all, map[string]string{"resources/templates/list{}": `null`}, "", "p1 p2 a://b", "prompt p1, prompt #4, resource #2, resource a://b, template ", 5},
		"no templates":       {all, map[string]string{"resources/templates/list{}": `{"resourceTemplates":null}`}, "", "p1 p2 a://b", "prompt p1, prompt #4, resource #2, resource a://b", 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &fake{capabilities: test.capabilities, answer: one(named("a")), others: map[string]string{}}
			for method, result := range lists {
				s.others[method] = result
			}
			for method, result := range test.edit {
				s.others[method] = result
			}
			delete(s.others, test.remove)
			logs, seen := observer.New(zap.WarnLevel)
			l, err := List(t.Context(), "demo", s, Rules{Allow: []string{"a"}}, zap.New(logs))
			if err != nil || len(l.Tools) != 1 {
				t.Fatalf("tools %v, error %v", l.Tools, err)
			}
			expect.Equal(t, keys(l), test.want)
			var dropped []string
			for _, d := range l.Dropped {
				dropped = append(dropped, d.Kind+" "+d.Name)
			}
			expect.Equal(t, strings.Join(dropped, ", "), test.dropped, "dropped")
			expect.Equal(t, seen.Len(), test.warns, "… warnings: %v", seen.All())
			expect.Equal(t, string(l.Capabilities), test.capabilities, "capabilities")
			expect.Equal(t, strings.Contains(test.capabilities, "extensions"), string(l.Extensions) == `{"x/y": {}}`, "extensions %s", l.Extensions)
		})
	}
}

// A server that lists very many tools without names, or with very long ones, does not fill the log.
func TestListLogIsBounded(t *testing.T) {
	logs, seen := observer.New(zap.WarnLevel)
	long := named(strings.Repeat("x", 100_000))
	s := &fake{capabilities: `{"tools":{}}`, answer: one(append(slices.Repeat([]string{`{}`}, maxDropped+100), long)...)}
	_, err := List(t.Context(), "demo", s, Rules{}, zap.New(logs))
	expect.OK(t, err)
	expect.Equal(t, seen.Len(), maxDropped, "warnings")
	s.answer = one(long)
	_, err = List(t.Context(), "demo", s, Rules{}, zap.New(logs))
	expect.OK(t, err)
	if got := fmt.Sprint(seen.All()[maxDropped].ContextMap()); len(got) > 1000 {
		t.Errorf("a warning of %d bytes", len(got))
	}
}

func TestListKeepsNoCapabilitiesThatAreNone(t *testing.T) {
	for _, capabilities := range []string{``, `null`, `[]`} {
		l, err := List(t.Context(), "demo", &fake{capabilities: capabilities}, Rules{}, zap.NewNop())
		if err != nil || l.Capabilities != nil || l.Extensions != nil {
			t.Errorf("%q: %s, %s, %v", capabilities, l.Capabilities, l.Extensions, err)
		}
	}
}

// A mute server answers to tools/list alone.
type mute struct{ fake }

func (m *mute) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if r.Method == "tools/list" {
		return m.fake.Call(ctx, r)
	}
	m.asked = append(m.asked, r.Method)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestListOfMuteServer(t *testing.T) {
	newMute := func() *mute {
		return &mute{fake{capabilities: `{"tools":{},"prompts":{},"resources":{}}`, answer: one(named("a"))}}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newMute()
		l, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
		if err != nil || len(l.Tools) != 1 || keys(l) != "" {
			t.Errorf("tools %v, others %q, error %v", l.Tools, keys(l), err)
		}
		expect.List(t, s.asked, []string{"{}", "prompts/list"}, "asked before the time was up")
	})
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			synctest.Wait()
			cancel(gone)
		}()
		if _, err := List(ctx, "demo", newMute(), Rules{}, zap.NewNop()); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

// What needs no repair keeps every byte.
func TestOthersKeepBytes(t *testing.T) {
	const icons = `"icons":[{"src":"data:,","sizes":["any"]}],"_meta":{"x" : 1.0},"x-new" :[1e400]`
	const annotations = `"annotations":{"audience":["user","assistant"],"priority":0.50,"lastModified":"2025-01-12T15:00:58.5+02:00","x":1}`
	prompt := `{ "arguments":[ {"name":"a","title":"A","description":"d","required":true,"x":1} , {"name":""} ] ,"name":"na\u006De","title":"T","description":"D",` + icons + ` }`
	p, err := normalizePrompt("srv", json.RawMessage("\n"+prompt+" "), "name")
	if err != nil || string(p.Definition) != prompt || len(p.Repairs) > 0 {
		t.Errorf("prompt %s, repairs %q, error %v", p.Definition, p.Repairs, err)
	}
	if p.ID != "srv:name" || p.Server != "srv" || p.Name != "name" || p.Title != "T" || p.Description != "D" {
		t.Errorf("prompt %+v", p)
	}
	resource := `{"uri":"file:\/\/\/x","name":"","title":"T","description":"D","mimeType":"a/b","size":1.0e3,` + annotations + `,` + icons + `}`
	r, err := normalizeResource("srv", json.RawMessage(resource), "uri")
	if err != nil || string(r.Definition) != resource || len(r.Repairs) > 0 {
		t.Errorf("resource %s, repairs %q, error %v", r.Definition, r.Repairs, err)
	}
	if r.ID != "srv:file:///x" || r.URI != "file:///x" || r.Name != "" || r.Title != "T" || r.Description != "D" || r.MIMEType != "a/b" {
		t.Errorf("resource %+v", r)
	}
	template := `{"uriTemplate":"file:///{+path}","name":"n","mimeType":"a/b","size":"big",` + annotations + `}`
	m, err := normalizeResource("srv", json.RawMessage(template), "uriTemplate")
	if err != nil || string(m.Definition) != template || len(m.Repairs) > 0 {
		t.Errorf("template %s, repairs %q, error %v", m.Definition, m.Repairs, err)
	}
	if m.ID != "srv:file:///{+path}" || m.URI != "file:///{+path}" || m.Name != "n" || m.MIMEType != "a/b" {
		t.Errorf("template %+v", m)
	}
}

// definition normalizes and returns the definition and the repairs.
func definition(kind, raw string) (definition string, repairs []string, err error) {
	switch kind {
	case "tool":
		t, err := Normalize("srv", json.RawMessage(raw), nil)
		return string(t.Definition), t.Repairs, err
	case registry.KindPrompt:
		p, err := normalizePrompt("srv", json.RawMessage(raw), "name")
		return string(p.Definition), p.Repairs, err
	case registry.KindResource:
		r, err := normalizeResource("srv", json.RawMessage(raw), "uri")
		return string(r.Definition), r.Repairs, err
	}
	t, err := normalizeResource("srv", json.RawMessage(raw), "uriTemplate")
	return string(t.Definition), t.Repairs, err
}

func TestOthersRepairs(t *testing.T) {
	tests := map[string]struct{ kind, raw, want, repair string }{
		"prompt title null":          {"prompt", `{"name":"x","title":null}`, `{"name":"x"}`, "title: removed"},
		"prompt description number":  {"prompt", `{"description":1,"name":"x"}`, `{"name":"x"}`, "description: removed"},
		"arguments null":             {"prompt", `{"name":"x","arguments":null}`, `{"name":"x"}`, "arguments: removed"},
		"arguments object":           {"prompt", `{"name":"x","arguments":{"a":{}}}`, `{"name":"x"}`, "arguments: removed"},
		"argument without name":      {"prompt", `{"name":"x","arguments":[ {"name":"a"} , {"description":"b"} ]}`, `{"name":"x","arguments":[ {"name":"a"} ]}`, "number 2"},
		"arguments not objects":      {"prompt", `{"name":"x","arguments":["a", {"name":"b"} ,null]}`, `{"name":"x","arguments":[ {"name":"b"}]}`, "number 3"},
		"no argument is good":        {"prompt", `{"name":"x","arguments":["a" ]}`, `{"name":"x","arguments":[ ]}`, "number 1"},
		"argument description":       {"prompt", `{"name":"x","arguments":[{"name":"a","description":null}]}`, `{"name":"x","arguments":[{"name":"a"}]}`, "description: removed"},
		"argument required":          {"prompt", `{"name":"x","arguments":[{"name":"a","required":"yes"}]}`, `{"name":"x","arguments":[{"name":"a"}]}`, "required: removed"},
		"argument name twice":        {"prompt", `{"name":"x","arguments":[{"name":1,"name":"a"}]}`, `{"name":"x","arguments":[{"name":"a"}]}`, "an argument: removed"},
		"prompt _meta":               {"prompt", `{"name":"x","_meta":[]}`, `{"name":"x"}`, "_meta: removed"},
		"prompt icons":               {"prompt", `{"name":"x","icons":[{}]}`, `{"name":"x"}`, "icons: removed"},
		"prompt not UTF-8":           {"prompt", "{\"name\":\"x\xff\"}", "{\"name\":\"x\uFFFD\"}", "not UTF-8"},
		"resource without name":      {"resource", `{"uri":"a:b"}`, `{"uri":"a:b","name":"a:b"}`, "name: replaced"},
		"resource name null":         {"resource", `{"name":null, "uri":"a:b"}`, `{"name":"a:b", "uri":"a:b"}`, "name: replaced"},
		"mimeType null":              {"resource", `{"name":"x","uri":"a:b","mimeType":null}`, `{"name":"x","uri":"a:b"}`, "mimeType: removed"},
		"size string":                {"resource", `{"name":"x","uri":"a:b","size":"12"}`, `{"name":"x","uri":"a:b"}`, "size: removed"},
		"size infinite":              {"resource", `{"name":"x","uri":"a:b","size":1e400}`, `{"name":"x","uri":"a:b"}`, "size: removed"},
		"annotations null":           {"resource", `{"name":"x","uri":"a:b","annotations":null}`, `{"name":"x","uri":"a:b"}`, "annotations: removed"},
		"audience string":            {"resource", `{"name":"x","uri":"a:b","annotations":{"audience":"user","x":1}}`, `{"name":"x","uri":"a:b","annotations":{"x":1}}`, "audience: removed"},
		"audience unknown":           {"resource", `{"name":"x","uri":"a:b","annotations":{"audience":["user","dog"]}}`, `{"name":"x","uri":"a:b","annotations":{}}`, "audience: removed"},
		"priority too high":          {"resource", `{"name":"x","uri":"a:b","annotations":{"priority":1.5}}`, `{"name":"x","uri":"a:b","annotations":{}}`, "priority: removed"},
		"lastModified a date":        {"resource", `{"name":"x","uri":"a:b","annotations":{"lastModified":"2025-01-12"}}`, `{"name":"x","uri":"a:b","annotations":{}}`, "lastModified: removed"},
		"lastModified without zone":  {"resource", `{"name":"x","uri":"a:b","annotations":{"lastModified":"2025-01-12T15:00:58"}}`, `{"name":"x","uri":"a:b","annotations":{}}`, "lastModified: removed"},
		"lastModified no such month": {"resource", `{"name":"x","uri":"a:b","annotations":{"lastModified":"2025-13-12T15:00:58Z"}}`, `{"name":"x","uri":"a:b","annotations":{}}`, "lastModified: removed"},
		"resource uri twice":         {"resource", `{"uri":"a:b","name":"x","uri":"c:d"}`, `{"name":"x","uri":"c:d"}`, "removed 1 members"},
		"template without name":      {"template", `{"uriTemplate":"a:{b}"}`, `{"uriTemplate":"a:{b}","name":"a:{b}"}`, "name: replaced"},
		"template mimeType":          {"template", `{"name":"x","uriTemplate":"a:{b}","mimeType":3}`, `{"name":"x","uriTemplate":"a:{b}"}`, "mimeType: removed"},
		"template annotations":       {"template", `{"name":"x","uriTemplate":"a:{b}","annotations":{"priority":"1"}}`, `{"name":"x","uriTemplate":"a:{b}","annotations":{}}`, "priority: removed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, repairs, err := definition(test.kind, test.raw)
			if err != nil || got != test.want {
				t.Errorf("definition\n%s, want\n%s; error %v", got, test.want, err)
			}
			expect.Contains(t, strings.Join(repairs, "\n"), test.repair, "repairs")
		})
	}
}

func TestOthersDrops(t *testing.T) {
	for _, kind := range []string{registry.KindPrompt, registry.KindResource, registry.KindTemplate} {
		key := map[string]string{"prompt": "name", "resource": "uri", "template": "uriTemplate"}[kind]
		for raw, want := range map[string]string{
			`{`:                            "not valid JSON",
			`["name"]`:                     "not an object",
			`{}`:                           "has no " + key,
			fmt.Sprintf(`{%q:null}`, key):  "has no " + key,
			fmt.Sprintf(`{%q:""}`, key):    "has no " + key,
			fmt.Sprintf(`{%q:["a"]}`, key): "has no " + key,
			strings.Repeat(`[`, 100_000):   "100 levels",
			fmt.Sprintf(`{%q:"x","description":"%s"}`, key, strings.Repeat("a", maxBytes)): "bytes",
		} {
			if _, _, err := definition(kind, raw); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %.60s: %v, want %q", kind, raw, err, want)
			}
		}
	}
}

// Whatever comes in, what goes out has the types that clients check, and is not
// repaired again.
func FuzzNormalizeOthers(f *testing.F) {
	f.Add([]byte(`{"name":"x" ,"arguments":[{"name":"a","required":1 } ,2 ] , "icons":0}`))
	f.Add([]byte(`{"uri":"a:b","uriTemplate":"c:{d}","size":1e999,"mimeType":null,"annotations":{"audience":[1],"priority":2 } }`))
	f.Add([]byte("{\"name\":\"x\xff\",\"uri\":\"\\u0000\",\"annotations\":{\"lastModified\":\"2025-01-12T15:00:58Z\"},\"_meta\":[]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, kind := range []string{registry.KindPrompt, registry.KindResource, registry.KindTemplate} {
			got, _, err := definition(kind, string(raw))
			if err != nil {
				continue
			}
			var o map[string]any
			d := json.NewDecoder(strings.NewReader(got))
			d.UseNumber() // of any size
			expect.OK(t, d.Decode(&o), "%s %s", kind, got)
			for _, member := range []string{"name", "title", "description"} {
				if v, ok := o[member]; ok {
					if _, ok := v.(string); !ok {
						t.Errorf("%s: %s is %v", got, member, v)
					}
				}
			}
			if _, ok := o["name"]; !ok {
				t.Errorf("%s has no name", got)
			}
			if again, repairs, err := definition(kind, got); err != nil || again != got || len(repairs) > 0 {
				t.Errorf("normalized again, %s becomes %s (%v, %q)", got, again, err, repairs)
			}
		}
	})
}

// A skill that hosts must not load is left out, and the reason names the fault.
func TestSkills(t *testing.T) {
	const file = `{"uri":"s://x/git/SKILL.md","digest":"sha256:` + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + `","size":3}`
	entry := func(front, resources string) string {
		return `{"uri":"s://x/git/SKILL.md","frontmatter":` + front + `,"resources":` + resources + `}`
	}
	const front = `{"name":"git","description":"d","x":{"y":[1.50]}}`
	with := func(old, replacement string) string {
		return `[` + file + `,` + strings.ReplaceAll(file, old, replacement) + `]`
	}
	for raw, want := range map[string]string{
		entry(front, `[`+file+`]`):                                        "",
		entry(front, with("SKILL.md", "a%20b/c.md")):                      "",
		entry(front, `"dynamic"`):                                         "",
		entry(`{"name":"git"}`, `"dynamic"`):                              "no description",
		entry(`{"name":"other","description":"d"}`, `"dynamic"`):          "does not end with /other/SKILL.md",
		entry(front, `"some"`):                                            `nor "dynamic"`,
		`{"uri":"s://x/git/SKILL.md","frontmatter":` + front + `}`:        `nor "dynamic"`,
		`{"uri":"s://x/git/skill","frontmatter":` + front + `}`:           "does not end with",
		entry(front, `[]`):                                                "lacks its own SKILL.md",
		entry(front, with("x", "x")):                                      "twice",
		entry(front, with("git/SKILL.md", "other/a.md")):                  "not in its folder",
		entry(front, with("SKILL.md", "../other/a.md")):                   "not in its folder",
		entry(front, with("SKILL.md", `a\\..\\..\\b`)):                    "not in its folder",
		entry(front, with("SKILL.md", "")):                                "not in its folder",
		entry(front, `[`+strings.Replace(file, "3}", "3.5}", 1)+`]`):      "no size",
		entry(front, `[`+strings.Replace(file, "0123", "ABCD", 1)+`]`):    "no digest",
		entry(front, `[`+strings.Replace(file, "3}", "16777217}", 1)+`]`): "more than 16 MiB",
		entry(front, `[`+strings.Repeat(file+",", 512)+file+`]`):          "513 files",
	} {
		s, err := Skill("s", json.RawMessage(raw))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && string(s.Definition) != raw {
			t.Errorf("%.150s: %v, want %q", raw, err, want)
		}
	}
}
