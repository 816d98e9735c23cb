package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/providers/internal/model"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func ids(tools []*registry.NormalizedTool) string {
	var all []string
	for _, t := range tools {
		all = append(all, t.ID)
	}
	return strings.Join(all, " ")
}

const secret = "sk-secret-0123456789"

// Every way in which an endpoint answers, or does not. Time is not real.
func TestCall(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	busy := refuse(429, "rate_limit_exceeded", "slow down, "+secret, "Retry-After", "7")
	hello := says("Hel", "lo")
	for _, tc := range []struct {
		name    string
		answers []http.HandlerFunc
		options Options
		text    string // in the result
		deltas  string // that were handed out, with | between
		failed  bool   // the result is a tool error
		down    bool   // Err is set: others may be asked
		tries   int
		after   time.Duration // all tries together; -1: whatever
	}{
		{"it answers", []http.HandlerFunc{hello}, Options{}, "Hello", "Hel|lo", false, false, 1, 0},
		{"without DONE", []http.HandlerFunc{stream(delta("Hi"), finished)}, Options{}, "Hi", "Hi", false, false, 1, 0},
		{"not as a stream", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"model":"gpt-x-2026","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`))
		}}, Options{NoStream: true}, "Hi", "Hi", false, false, 1, 0},
		{"busy, with Retry-After", []http.HandlerFunc{busy, hello}, Options{}, "Hello", "Hel|lo", false, false, 2, 7 * time.Second},
		{"busy until a date", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			refuse(503, "", "", "Retry-After", time.Now().Add(9*time.Second).UTC().Format(http.TimeFormat))(w, r)
		}, hello}, Options{}, "Hello", "Hel|lo", false, false, 2, -1},
		{"busy for too long", []http.HandlerFunc{refuse(429, "", "come back tomorrow", "Retry-After", "86400")}, Options{}, "come back tomorrow; Retry-After: 86400", "", true, true, 1, 0},
		{"busy beyond the deadline", []http.HandlerFunc{busy}, Options{Timeout: 5 * time.Second}, "Retry-After: 7", "", true, true, 1, 0},
		{"failing, then well", []http.HandlerFunc{refuse(500, "", "oops"), refuse(502, "", ""), hello}, Options{}, "Hello", "Hel|lo", false, false, 3, -1},
		{"failing for good", []http.HandlerFunc{refuse(500, "server_error", "oops")}, Options{}, "the API answered 500 Internal Server Error (server_error): oops (tried 4 times)", "", true, true, 4, -1},
		{"no money", []http.HandlerFunc{refuse(429, "insufficient_quota", "pay first")}, Options{}, "insufficient_quota", "", true, true, 1, 0},
		{"a bad request", []http.HandlerFunc{refuse(400, "invalid_request_error", "no such voice "+secret)}, Options{}, "the API answered 400 Bad Request (invalid_request_error): no such voice (the key)", "", true, false, 1, 0},
		{"no such model", []http.HandlerFunc{refuse(404, "model_not_found", "gone")}, Options{}, "404 Not Found", "", true, true, 1, 0},
		{"cut before the first word", []http.HandlerFunc{cut(stream(": ping")), hello}, Options{}, "Hello", "Hel|lo", false, false, 2, -1},
		{"cut in the middle", []http.HandlerFunc{cut(stream(delta("Hel"))), hello}, Options{}, "this much had come:\nHel", "Hel", true, false, 1, 0},
		{"ends in the middle", []http.HandlerFunc{stream(delta("Hel")), hello}, Options{}, "the answer was cut off: unexpected EOF; this much had come:\nHel", "Hel", true, false, 1, 0},
		{"nothing in it", []http.HandlerFunc{stream(done), hello}, Options{}, "Hello", "Hel|lo", false, false, 2, -1},
		{"malformed", []http.HandlerFunc{stream("data: {\"choices\":[")}, Options{MaxTries: 2}, "the answer is malformed", "", true, true, 2, -1},
		{"malformed later", []http.HandlerFunc{stream(delta("a"), "data: nonsense")}, Options{}, "the answer is malformed", "a", true, false, 1, 0},
		{"an error in the stream", []http.HandlerFunc{stream(delta("a"), `data: {"error":{"message":"overloaded `+secret+`","code":"busy"}}`)}, Options{}, "the API failed (busy): overloaded (the key); this", "a", true, false, 1, 0},
		{"too slow", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			stream(delta("Once"))(w, r)
			<-r.Context().Done()
		}}, Options{Timeout: time.Minute}, "gpt-x did not answer within 1m0s; this much had come:\nOnce", "Once", true, false, 1, time.Minute},
		{"silent", []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, Options{Timeout: time.Minute}, "gpt-x did not answer within 1m0s", "", true, true, 1, time.Minute},
		{"too large", []http.HandlerFunc{stream(delta(strings.Repeat("x", 2000)))}, Options{MaxBody: 1000}, "the answer is too large: more than 1000 bytes", "", true, true, 1, 0},
		{"too large at once", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, strings.Repeat("x", 2000))
		}}, Options{MaxBody: 1000, NoStream: true}, "the answer is too large: more than 1000 bytes", "", true, true, 1, 0},
		{"too large in many parts", []http.HandlerFunc{says(strings.Repeat("x", 600), strings.Repeat("y", 600))}, Options{MaxBody: 1000}, "the answer is too large", "*", true, false, 1, 0},
		{"refused by the model", []http.HandlerFunc{stream(`data: {"choices":[{"index":0,"delta":{"refusal":"I'd rather not."}}]}`, finished)}, Options{}, "The model refuses: I'd rather not.", "", true, false, 1, 0},
		{"down the corridor", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/chat/completions", http.StatusTemporaryRedirect)
		}, hello}, Options{}, "Hello", "Hel|lo", false, false, 2, 0},
		{"in circles", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/chat/completions", http.StatusTemporaryRedirect)
		}}, Options{}, "ai.test redirects without end", "", true, true, 5, 0},
		{"to a page", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/models", http.StatusFound)
		}}, Options{}, "ai.test redirects what was posted to a page", "", true, true, 1, 0},
		{"elsewhere", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.test/v1/chat/completions", http.StatusTemporaryRedirect)
		}}, Options{}, "ai.test redirects to https://elsewhere.test, which is another origin and gets nothing", "", true, true, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{t: t, answers: tc.answers}
				o := e.serve()
				o.Models = []Model{{ID: "gpt-x"}}
				o.NoStream, o.Timeout, o.MaxTries, o.MaxBody = tc.options.NoStream, tc.options.Timeout, tc.options.MaxTries, tc.options.MaxBody
				core, logs := observer.New(zap.DebugLevel)
				o.Log = zap.New(core)
				c := open(t, o)
				var deltas []string
				ctx := WithDeltas(t.Context(), func(s string) { deltas = append(deltas, s) })
				began := time.Now()
				r, err := adapter.Execute(ctx, c, "ai:gpt-x", map[string]string{"prompt": "Say hello."})
				if err != nil || r.IsError != tc.failed || (r.Err != nil) != tc.down || !strings.Contains(r.Text(), tc.text) {
					t.Errorf("%s, %v, %v", r.JSON, r.Err, err)
				}
				if got := strings.Join(deltas, "|"); got != tc.deltas && tc.deltas != "*" {
					t.Errorf("handed out %q, want %q", got, tc.deltas)
				}
				expect.Equal(t, len(e.requests()), tc.tries, "tries")
				if took := time.Since(began); tc.after >= 0 && took != tc.after {
					t.Errorf("took %s, want %s", took, tc.after)
				}
				if strings.Contains(string(r.JSON), secret) {
					t.Errorf("the key is in the result: %s", r.JSON)
				}
				for _, entry := range logs.All() {
					t.Errorf("logged: %v", entry)
				}
				for _, request := range e.requests() {
					if request.header.Get("Authorization") != "Bearer "+secret {
						t.Errorf("sent %v", request.header)
					}
				}
			})
		})
	}
}

// open returns a provider "ai" until the test ends.
func open(t *testing.T, o Options) adapter.ProviderAdapter {
	t.Helper()
	c, err := New("ai", o)
	expect.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// The request has all arguments, and the result has the text, reasoning and usage.
func TestRequestAndResult(t *testing.T) {
	t.Setenv("OTHER_KEY", "")
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{t: t, answers: []http.HandlerFunc{stream(
			`data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm. "}}]}`, delta("Yes."), finished, used, done)}}
		o := e.serve()
		o.KeyVariable, o.Models = "OTHER_KEY", []Model{{ID: "gpt-5-mini", Description: "Quick and cheap."}, {ID: "llama3:8b", Capabilities: []string{"poetry"}}}
		c := open(t, o)
		if n := len(c.Tools()); n != 2 {
			t.Fatalf("%d tools", n)
		}
		tool, _ := adapter.Tool(c, "ai:gpt-5-mini")
		if got := strings.Join(tool.Capabilities, " "); got != "ai chat code reasoning vision" || !strings.HasPrefix(tool.Description, "Ask the language model gpt-5-mini. Quick and cheap. ") {
			t.Errorf("%s: %s", got, tool.Description)
		}
		if !model.Is(tool) {
			t.Errorf("the schema of a model is %s", tool.InputSchema)
		}
		if got := c.FindByCapability("poetry"); len(got) != 1 || got[0].ID != "ai:llama3:8b" {
			t.Errorf("poets: %v", got)
		}
		var told []string
		r, err := c.Execute(t.Context(), selector.Call{
			Tool: tool, From: client{&told}, Meta: json.RawMessage(`{"progressToken":"p"}`),
			Arguments: json.RawMessage(`{"system":"Be brief.","messages":[{"role":"user","content":"A?"},{"role":"assistant","content":"B."}],"prompt":"Sure?","max_tokens":5,"temperature":0.5}`),
		})
		expect.OK(t, err)
		body, _ := json.Marshal(e.requests()[0].body)
		if want := `{"max_completion_tokens":5,"messages":[{"content":"Be brief.","role":"system"},{"content":"A?","role":"user"},{"content":"B.","role":"assistant"},{"content":"Sure?","role":"user"}],"model":"gpt-5-mini","stream":true,"stream_options":{"include_usage":true},"temperature":0.5}`; string(body) != want {
			t.Errorf("asked %s", body)
		}
		if e.requests()[0].header.Get("Authorization") != "" {
			t.Error("a key was sent that is not set")
		}
		if want := `{"text":"Yes.","model":"gpt-x-2026","finish_reason":"stop","reasoning":"Hm. ","usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`; string(r.Structured()) != want {
			t.Errorf("structured %s", r.Structured())
		}
		if tries := string(wire.Member(r.Meta(), "tries")); tries != "1" || string(wire.Member(r.Meta(), "tool_name")) != `"gpt-5-mini"` {
			t.Errorf("_meta %s", r.Meta())
		}
		expect.Equal(t, strings.Join(told, "\n"), `notifications/progress {"message":"Yes.","progress":1,"progressToken":"p"}`, "told")
		for args, want := range map[string]string{
			`{}`:                                "Nothing was asked",
			`{"prompt":"a","temperature":9}`:    "arguments.temperature",
			`{"prompt":"a","model":"another"}`:  "additional properties 'model'",
			`{"messages":[{"role":"emperor"}]}`: "arguments.messages.0",
		} {
			if r, err := adapter.Execute(t.Context(), c, tool.ID, json.RawMessage(args)); err != nil || !r.IsError || r.Err != nil || !strings.Contains(r.Text(), want) {
				t.Errorf("%s: %s, %v", args, r.JSON, err)
			}
		}
		expect.Equal(t, len(e.requests()), 1, "requests")
	})
}

// A client gets progress notifications.
type client struct{ told *[]string }

func (client) Home() session.Client          { return nil }
func (client) ClientName() string            { return "" }
func (client) Modern() bool                  { return true }
func (client) Capabilities() json.RawMessage { return nil }
func (c client) Notify(_ string, m session.Message) {
	*c.told = append(*c.told, m.Method+" "+string(m.Params))
}
func (client) Ask(context.Context, string, session.Message) (json.RawMessage, error) {
	return nil, errors.New("not now")
}

// Without a key the service is asked, too, and the error says that there is no key.
func TestNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{t: t, answers: []http.HandlerFunc{refuse(401, "invalid_api_key", "You didn't provide a key.")}}
		o := e.serve()
		o.KeyVariable, o.Models = "METAROUTER_NO_SUCH_KEY", []Model{{ID: "m"}}
		c := open(t, o)
		r, err := adapter.Execute(t.Context(), c, "ai:m", map[string]string{"prompt": "x"})
		if want := "the API answered 401 Unauthorized (invalid_api_key): You didn't provide a key.; no key was sent, as METAROUTER_NO_SUCH_KEY is not set"; err != nil || r.Text() != want {
			t.Errorf("%s, %v", r.JSON, err)
		}
	})
}

// Models come and go, and the endpoint too.
func TestModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{t: t}
		o := e.serve()
		o.Refresh = time.Hour
		o.Overrides = map[string]Model{"plain": {Capabilities: []string{"math"}}}
		core, logs := observer.New(zap.InfoLevel)
		o.Log = zap.New(core)
		c := open(t, o)
		synctest.Wait() // it has been asked for the first time
		h := c.Health(t.Context())
		if h.State != adapter.Down || !strings.Contains(h.Reason, "502 Bad Gateway: gone fishing") || h.Tools != 0 || h.Err() == nil {
			t.Errorf("%+v", h)
		}
		changed := c.Changed()
		e.lists("plain", "gpt-4o-mini", "text-embedding-3-small", "whisper-1", "plain", "")
		<-changed // it is asked again soon
		if len(c.Tools()) != 2 || c.Tools()[0].Name != "gpt-4o-mini" || strings.Join(c.Tools()[1].Capabilities, " ") != "ai chat math" {
			t.Errorf("%v", c.Tools())
		}
		if logs.Len() != 1 {
			t.Errorf("logged %v", logs.All())
		}
		began := time.Now()
		changed = c.Changed()
		e.lists("plain", "o3")
		<-changed
		if took := time.Since(began); took > time.Hour || len(c.FindByCapability("reasoning")) != 1 {
			t.Errorf("after %s: %v", took, c.Tools())
		}
		e.lists()
		if h := c.Health(t.Context()); h.State != adapter.Down || h.Tools != 2 || len(c.Tools()) != 2 {
			t.Errorf("%+v", h)
		}
		e.lists("plain", "o3")
		if h := c.Health(t.Context()); h.State != adapter.Up || h.Err() != nil {
			t.Errorf("%+v", h)
		}
		expect.OK(t, c.Close())
		if h := c.Health(t.Context()); h.State != adapter.Down || h.Tools != 2 {
			t.Errorf("after Close: %+v", h)
		}
	})
}

// Close ends a call in the middle of its answer, and a pause between two tries.
func TestClose(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"answering": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"pausing":   refuse(429, "", "", "Retry-After", "20"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{t: t, answers: []http.HandlerFunc{answer}}
				o := e.serve()
				o.Models = []Model{{ID: "m"}}
				c, err := New("ai", o)
				expect.OK(t, err)
				under := make(chan selector.Result)
				go func() {
					r, _ := adapter.Execute(context.Background(), c, "ai:m", map[string]string{"prompt": "x"})
					under <- r
				}()
				synctest.Wait()
				began := time.Now()
				go c.Close()
				if r := <-under; !errors.Is(r.Err, inprocess.ErrEnded) || time.Since(began) != 0 {
					t.Errorf("%s", r.JSON)
				}
				expect.OK(t, c.Close())
			})
		})
	}
}

// A server without a valid certificate does not get the key, and a server that is
// refused a connection is one that can't be reached.
func TestNetworkErrors(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	visited := false
	impostor := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited = true }))
	impostor.Config.ErrorLog = log.New(io.Discard, "", 0)
	impostor.StartTLS()
	defer impostor.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for base, want := range map[string]string{impostor.URL: "certificate", gone.URL: "can't reach " + strings.TrimPrefix(gone.URL, "http://")} {
		c, err := New("ai", Options{BaseURL: base, Models: []Model{{ID: "m"}}, MaxTries: 1})
		expect.OK(t, err)
		r, err := adapter.Execute(t.Context(), c, "ai:m", map[string]string{"prompt": "x"})
		if err != nil || r.Err == nil || !strings.Contains(r.Text(), want) || visited {
			t.Errorf("%s, %v", r.JSON, err)
		}
		if h := c.Health(t.Context()); h.State != adapter.Down || !strings.Contains(h.Reason, want) {
			t.Errorf("%+v", h)
		}
		expect.OK(t, c.Close())
	}
	for _, base := range []string{"ftp://x", "nonsense", "http://", "https://me:password@x", "http://\x7f"} {
		if _, err := New("ai", Options{BaseURL: base}); err == nil || strings.Contains(err.Error(), "password@") {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestCapabilitiesOf(t *testing.T) {
	for id, want := range map[string]string{
		"gpt-4o-mini": "code vision", "gpt-5": "reasoning code vision", "o3-mini": "reasoning code vision", "gpt-3.5-turbo": "",
		"deepseek-r1:7b": "reasoning", "deepseek-ai/DeepSeek-R1": "reasoning", "qwen2.5-coder:7b": "code", "Qwen/Qwen3-8B": "reasoning",
		"meta-llama/Llama-3.1-8B-Instruct": "", "llava": "vision", "Qwen2-VL-7B": "vision", "claude-sonnet-4": "reasoning code vision", "llama3:8b": "",
	} {
		expect.Equal(t, strings.Join(capabilitiesOf(id), " "), want, "%s", id)
	}
	for _, id := range []string{"text-embedding-3-large", "whisper-1", "tts-1", "dall-e-3", "omni-moderation-latest", "bge-m3", "gpt-4o-transcribe"} {
		if !notChat().MatchString(id) {
			t.Errorf("%s is taken for a model that chats", id)
		}
	}
}
