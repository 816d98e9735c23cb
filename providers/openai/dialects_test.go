package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// answers is an endpoint's answer with a status and a body.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// Services that differ from OpenAI have answers, too.
func TestDialects(t *testing.T) {
	hello := says("Hel", "lo")
	for _, tc := range []struct {
		name    string
		answers []http.HandlerFunc
		text    string // in the result
		failed  bool
		tries   int
	}{
		{"the message so far beside each part (Perplexity)", []http.HandlerFunc{stream(
			`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"message":{"role":"assistant","content":"Hel"}}]}`,
			`data: {"choices":[{"index":0,"delta":{"content":"lo"},"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`)}, "Hello", false, 1},
		{"the message at once in a stream", []http.HandlerFunc{stream(
			`data: {"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"delta":null,"finish_reason":"stop"}]}`, done)}, "Hello", false, 1},
		{"reasoning under two names (vLLM)", []http.HandlerFunc{stream(
			`data: {"choices":[{"index":0,"delta":{"content":null,"reasoning":"Hm.","reasoning_content":"Hm."}}]}`, delta("Hello"), finished, done)}, `Hello|"Hm."`, false, 1},
		{"null wherever it can be", []http.HandlerFunc{stream(
			`data: {"id":null,"model":null,"choices":null,"usage":null,"error":null}`,
			`data: {"choices":[{"index":null,"delta":{"role":"assistant","content":null,"refusal":null,"tool_calls":null},"logprobs":null,"finish_reason":null}]}`,
			delta("Hello"), finished, done)}, "Hello", false, 1},
		{"filters before the answer (Azure)", []http.HandlerFunc{stream(
			`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, delta("Hello"), finished, done)}, "Hello", false, 1},
		{"CRLF, no space, a space behind DONE", []http.HandlerFunc{stream(
			": ping\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\r\n\r\nevent: ping\r\ndata: {}\r\n\r\ndata: [DONE] ")}, "Hello", false, 1},
		{"the connection is cut after the last word", []http.HandlerFunc{cut(stream(delta("Hello"), finished))}, "Hello", false, 1},
		{"an error of its own kind (vLLM)", []http.HandlerFunc{answers(400, `{"object":"error","message":"too long","type":"BadRequestError","code":400}`)}, "400 Bad Request (BadRequestError): too long", true, 1},
		{"an error with a detail (FastAPI)", []http.HandlerFunc{answers(404, `{"detail":"Not at home"}`)}, `404 Not Found: {"detail":"Not at home"}`, true, 1},
		{"an error with a list of details", []http.HandlerFunc{answers(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`)}, `422 Unprocessable Entity: {"detail":[{"loc":["body"],"msg":"field required"}]}`, true, 1},
		{"overloaded (529)", []http.HandlerFunc{answers(529, `{"error":{"message":"overloaded"}}`), hello}, "Hello", false, 2},
		{"the edge has no origin (522)", []http.HandlerFunc{answers(522, "<html>"), hello}, "Hello", false, 2},
		{"not implemented is for good", []http.HandlerFunc{answers(501, ""), hello}, "501 Not Implemented", true, 1},
		{"a status in the stream (OpenRouter)", []http.HandlerFunc{stream(`data: {"error":{"code":502,"message":"upstream"}}`), hello}, "Hello", false, 2},
		{"a status in an answer of 200", []http.HandlerFunc{answers(200, `{"error":{"code":429,"message":"slow down"}}`), hello}, "Hello", false, 2},
		{"a bad request in the stream (llama.cpp)", []http.HandlerFunc{stream(`data: {"error":{"code":400,"type":"exceed_context_size_error","message":"too long"}}`), hello}, "400 Bad Request (exceed_context_size_error): too long", true, 1},
		{"an error of its own kind in the stream", []http.HandlerFunc{stream(`data: {"object":"error","message":"no such model","type":"NotFoundError","code":404}`), hello}, "404 Not Found (NotFoundError): no such model", true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{t: t, answers: tc.answers}
				o := e.serve()
				o.Models = []Model{{ID: "m"}}
				c := open(t, o)
				r, err := adapter.Execute(t.Context(), c, "ai:m", map[string]string{"prompt": "Say hello."})
				text, reasoning, _ := strings.Cut(tc.text, "|")
				if err != nil || r.IsError != tc.failed || !tc.failed && r.Text() != text || !strings.Contains(r.Text(), text) {
					t.Errorf("%s, %v", r.JSON, err)
				}
				expect.Equal(t, string(wire.Member(r.Structured(), "reasoning")), reasoning, "reasoning")
				expect.Equal(t, len(e.requests()), tc.tries, "tries")
			})
		})
	}
}

// Lists of models that are not quite OpenAI's.
func TestModelLists(t *testing.T) {
	for list, want := range map[string]string{
		`{"object":"list","data":[{"id":"a","object":"model","created":1,"meta":{"n_ctx":4096},"permission":[]}],"models":[{"name":"a"}]}`: "ai:a",
		`{"object":"list","data":null}`:                   "", // Ollama without models
		`[{"id":"b","type":"chat"},{"id":"c","type":""}]`: "ai:b ai:c",
		`{"data":{"id":"a"}}`:                             "error",
		`{"models":[]}`:                                   "error",
		`"a"`:                                             "error",
	} {
		c, err := New("ai", Options{BaseURL: "http://ai.test/v1", Refresh: -1, Transport: transport(func(*http.Request) (*http.Response, error) {
			return response(200, list), nil
		})})
		expect.OK(t, err)
		err = c.Health(t.Context()).Err()
		if got := ids(c.Tools()); err == nil && got != want || err != nil && want != "error" {
			t.Errorf("%s: %q, %v", list, got, err)
		}
		expect.OK(t, c.Close())
	}
}

// A base URL may have a query, as Azure's has.
func TestBaseURLWithQuery(t *testing.T) {
	var asked []string
	c, err := New("ai", Options{BaseURL: "http://ai.test/openai/?api-version=2026-01&x=" + url.QueryEscape(secret), Models: []Model{{ID: "m"}}, MaxTries: 1,
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Path+"?"+r.URL.Query().Get("api-version"))
			return nil, errors.New("no route")
		})})
	expect.OK(t, err)
	defer c.Close()
	r, err := adapter.Execute(t.Context(), c, "ai:m", map[string]string{"prompt": "x"})
	h := c.Health(t.Context())
	if err != nil || strings.Join(asked, " ") != "/openai/chat/completions?2026-01 /openai/models?2026-01" {
		t.Errorf("asked %s, %v", asked, err)
	}
	if strings.Contains(string(r.JSON)+h.Reason, secret) {
		t.Errorf("what is in the URL is told: %s, %s", r.JSON, h)
	}
}

// Numbers below zero are no reason to run in circles or to wait for ever.
func TestOptionsBelowZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := open(t, Options{Refresh: -1, MaxConcurrent: -1, Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked++
			return response(200, `{"data":[{"id":"m"}],"choices":[{"message":{"content":"Hello"}}]}`), nil
		})})
		time.Sleep(time.Hour)
		expect.Equal(t, asked, 0, "asked … times")
		expect.OK(t, c.Health(t.Context()).Err())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, err := adapter.Execute(ctx, c, "ai:m", map[string]string{"prompt": "x"}); err != nil || r.Text() != "Hello" {
			t.Errorf("%s, %v", r.JSON, err)
		}
		for _, o := range []Options{{Timeout: -1}, {MaxTries: -1}, {MaxWait: -1}, {MaxBody: -1}} {
			if c, err := New("ai", o); err == nil {
				t.Errorf("%+v is taken", o)
				c.Close()
			}
		}
	})
}

// Who panics in the middle of a call ends the call and nothing else.
func TestPanicInCall(t *testing.T) {
	c := open(t, Options{Models: []Model{{ID: "m"}}, Transport: transport(func(*http.Request) (*http.Response, error) {
		return response(200, `{"choices":[{"message":{"content":"Hello"}}]}`), nil
	})})
	ctx := WithDeltas(t.Context(), func(string) { panic("oh no") })
	if r, err := adapter.Execute(ctx, c, "ai:m", map[string]string{"prompt": "x"}); err != nil || !r.IsError || !strings.Contains(r.Text(), "m panicked: oh no") {
		t.Errorf("%s, %v", r.JSON, err)
	}
}

// A transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// For every response a call has a valid result, and the parts that were passed on are the beginning
// of the answer.
func FuzzAnswer(f *testing.F) {
	f.Add(delta("a") + "\n\n" + finished + "\n\n" + used + "\n\n" + done + "\n\n")
	f.Add(`data: {"choices":[{"index":0,"message":{"content":[{"text":"a"},{"text":7}]},"finish_reason":"length"}],"usage":7}` + "\n\n")
	f.Add(`data: {"error":"no"}` + "\n\n")
	f.Add(`data: {"error":{"code":7,"message":"\ud800"}}` + "\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		said := ""
		a := &answer{model: "m", limit: 1000, onText: func(text string) { said += text }}
		err := a.read(&http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(in))})
		result := a.result(1)
		if err != nil {
			if result, err = a.failed(err, 2); err != nil {
				expect.Equal(t, said, "", "handed out though others may be asked (%v)", err)
				return
			}
		}
		if !json.Valid(result) || said != a.text.String() {
			t.Errorf("%s, of which %q was handed out", result, said)
		}
	})
}
