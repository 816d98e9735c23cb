//lint:file-ignore SA1019 sampling is deprecated, and clients have it

package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A configured is the model that the configuration names.
type configured struct{ selector.Assistant }

// Searches may ask the client's own model, in both eras, if the configuration says so and the
// client offers it. Otherwise they may ask the model that the configuration names.
func TestSearchMayAskClientsModel(t *testing.T) {
	choices := []string{"a:read: reads a file", "b:write: writes a file"}
	for _, version := range []string{"", "2025-11-25"} {
		for _, name := range []string{"find_tools", "route_task"} {
			t.Run(name+" "+version, func(t *testing.T) {
				r := newFake(tool("a", "read"))
				r.assistant = configured{}
				r.ranking, r.selection = selector.Ranking{Abstained: true}, selector.Selection{Abstained: true}
				var index int
				var err error
				r.asks = func(ctx context.Context, a selector.Assistant) { index, err = a.Choose(ctx, "store it", choices) }
				says := "2"
				options := &mcp.ClientOptions{CreateMessageHandler: func(_ context.Context, q *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					text := q.Params.Messages[0].Content.(*mcp.TextContent).Text
					if !strings.Contains(text, "Task: store it\n") || !strings.Contains(text, "\n2. b:write: writes a file\n") || q.Params.MaxTokens != 10 || q.Params.SystemPrompt == "" {
						t.Errorf("the model is asked %+v: %s", q.Params, text)
					}
					return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: says}}, nil
				}}
				cs := connectSDK(t, newAlone(r, Options{Mode: exposure.Search, Samples: true}), version, options)
				search := func() {
					t.Helper()
					arguments := json.RawMessage(`{"query":"store it"}`)
					if name == "route_task" {
						arguments = json.RawMessage(`{"task":"store it"}`)
					}
					_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
					expect.OK(t, err)
				}
				if search(); index != 1 || err != nil {
					t.Errorf("it chose %d, %v", index, err)
				}
				says = "nothing suits"
				if search(); err == nil {
					t.Errorf("%q chose %d", says, index)
				}
			})
		}
	}
}

func TestSearchAsksOnlyModelsThatAreMeant(t *testing.T) {
	sampling := &mcp.ClientOptions{CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
		t.Error("the client's model is asked")
		return nil, errors.New("no")
	}}
	for _, test := range []struct {
		name    string
		samples bool
		client  *mcp.ClientOptions
		want    selector.Assistant
	}{
		{"a client without a model", true, &mcp.ClientOptions{}, nil},
		{"the configuration names a model", false, sampling, configured{}},
	} {
		r := newFake(tool("a", "read"))
		r.assistant = configured{}
		asked := 0
		r.asks = func(_ context.Context, a selector.Assistant) {
			if asked++; a != test.want {
				t.Errorf("%s: a search may ask %v", test.name, a)
			}
		}
		cs := connectSDK(t, newAlone(r, Options{Mode: exposure.Search, Samples: test.samples}), "2025-11-25", test.client)
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_tools", Arguments: json.RawMessage(`{"query":"x"}`)})
		expect.OK(t, err)
		if asked == 0 {
			t.Errorf("%s: there was no search", test.name)
		}
	}
}

// A deadline is a context whose deadline passes when a test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A client whose model does not answer in time gets its answer all the same, and is asked no
// more after three times.
func TestSearchGoesOnWithoutClientsModel(t *testing.T) {
	for _, version := range []string{"", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			r := newFake(tool("a", "read"))
			r.ranking = selector.Ranking{Candidates: []selector.Candidate{{Tool: r.Tools()[0], Confidence: 0.2}}}
			asked, gaveUp := make(chan chan struct{}, 1), make(chan struct{})
			r.asks = func(ctx context.Context, a selector.Assistant) {
				d := deadline{ctx, make(chan struct{})}
				asked <- d.passed
				if i, err := a.Choose(d, "x", []string{"a:read: reads"}); err == nil {
					t.Errorf("it chose %d", i)
				}
				select {
				case <-asked: // the model was not asked
				case gaveUp <- struct{}{}:
				}
			}
			times := 0
			cs := connectSDK(t, newAlone(r, Options{Mode: exposure.Search, Samples: true}), version, &mcp.ClientOptions{
				CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					times++
					close(<-asked)
					<-gaveUp
					return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "1"}}, nil
				},
			})
			for range 5 {
				result, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_tools", Arguments: json.RawMessage(`{"query":"x"}`)})
				if err != nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, `"a:read"`) {
					t.Fatalf("%+v, %v", result, err)
				}
			}
			expect.Equal(t, times, 3, "the model is asked … times")
		})
	}
}
