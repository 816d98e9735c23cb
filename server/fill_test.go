//lint:file-ignore SA1019 sampling is deprecated, and clients have it

package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Missing arguments come from the person, who also gives leave to run what is not run
// unasked; the client's model is not asked. In both eras.
func TestRouteTaskFills(t *testing.T) {
	mail := tool("post", "mail")
	mail.InputSchema = json.RawMessage(`{"type":"object","required":["to","subject"],"properties":{
		"to":{"type":"string","format":"email"},"subject":{"type":"string","pattern":"x"},"cc":{"type":"array"}}}`)
	list := tool("post", "list")
	list.InputSchema = json.RawMessage(`{"type":"object","required":["cc"],"properties":{"cc":{"type":"array"}}}`)
	read := tool("post", "read")
	yes := true
	read.Hints.ReadOnly = &yes
	for _, tc := range []struct {
		name      string
		tool      int // read, mail, list
		does      string
		args      string
		want      string // what ran, "" for nothing
		wantAsked string
	}{
		{"the missing one", 1, "accept", `{"given":1,"to":"a@b.c"}`, `{"given":1,"to":"a@b.c","subject":"Hello x"}`, "elicitation[subject]"},
		{"both", 1, "accept", `{}`, `{"subject":"Hello x","to":"me@x.y"}`, "elicitation[subject to]"},
		{"leave alone", 1, "accept", `{"to":"a@b.c","subject":"x"}`, `{"to":"a@b.c","subject":"x"}`, "elicitation[]"},
		{"declined", 1, "decline", `{"to":"a@b.c","subject":"x"}`, ``, "elicitation[]"},
		{"no form has a list", 2, "accept", `{}`, ``, ""},
		{"nobody needs to be asked", 0, "decline", `{}`, `{}`, ""},
	} {
		for _, version := range []string{"", "2025-11-25"} {
			t.Run(tc.name+" "+version, func(t *testing.T) {
				r := newFake(mail, list, read)
				ran := ""
				r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
					ran = string(c.Arguments)
					return selector.Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)}, nil
				}
				r.selection = selector.Selection{Tool: r.Tools()[[]int{2, 1, 0}[tc.tool]], Confidence: 0.9}
				var asked []string
				cs := connectSDK(t, newAlone(r, Options{Mode: exposure.Search, RouteThreshold: 0.5, FillArguments: true}), version, &mcp.ClientOptions{
					CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
						t.Error("the client's model is asked")
						return nil, errors.New("no")
					},
					ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						schema := q.Params.RequestedSchema.(map[string]any)
						content := map[string]any{}
						var names []string
						for _, name := range []string{"subject", "to"} {
							if property, ok := schema["properties"].(map[string]any)[name].(map[string]any); ok {
								names = append(names, name)
								content[name] = map[string]string{"to": "me@x.y", "subject": "Hello x"}[name]
								if property["pattern"] != nil {
									t.Errorf("the form has %v", property)
								}
							}
						}
						asked = append(asked, "elicitation["+strings.Join(names, " ")+"]")
						if !strings.HasPrefix(q.Params.Message, "metarouter: Run post:") {
							t.Errorf("the person is asked %s", q.Params.Message)
						}
						return &mcp.ElicitResult{Action: tc.does, Content: content}, nil
					},
				})
				result, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "route_task",
					Arguments: json.RawMessage(`{"task":"write to Ada","arguments":` + tc.args + `}`)})
				expect.OK(t, err)
				if !sameJSON(ran, tc.want) || strings.Join(asked, " ") != tc.wantAsked {
					t.Errorf("ran %s, asked %q\nwant %s, asked %q", ran, asked, tc.want, tc.wantAsked)
				}
				expect.Equal(t, result.Content[0].(*mcp.TextContent).Text == "done", ran != "", "answer")
			})
		}
	}
}

// Who can be asked for nothing gets the proposal, and so do all unless the
// configuration allows to ask.
func TestRouteTaskAsksOnlyWhoAnswers(t *testing.T) {
	mail := tool("post", "mail")
	mail.InputSchema = json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}`)
	for _, fill := range []bool{false, true} {
		r := newFake(mail)
		r.selection = selector.Selection{Tool: r.Tools()[0], Confidence: 0.9}
		options := &mcp.ClientOptions{}
		if !fill {
			options.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				t.Error("the person is asked though the configuration does not allow it")
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
		}
		cs := connectSDK(t, newAlone(r, Options{Mode: exposure.Search, FillArguments: fill}), "2025-11-25", options)
		result, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "route_task", Arguments: json.RawMessage(`{"task":"write"}`)})
		expect.OK(t, err)
		expect.Equal(t, string(wire.Member([]byte(result.Content[0].(*mcp.TextContent).Text), "missing")), `["to"]`, "fill %v", fill)
	}
}

// connectSDK connects the SDK's client over a pipe.
func connectSDK(t *testing.T, s *alone, version string, options *mcp.ClientOptions, roots ...*mcp.Root) *mcp.ClientSession {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error)
	go func() { done <- serve(t.Context(), s, inR, outW) }()
	c := mcp.NewClient(&mcp.Implementation{Name: "test"}, options)
	c.AddRoots(roots...)
	cs, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	expect.OK(t, err)
	t.Cleanup(func() {
		cs.Close()
		<-done
	})
	return cs
}

func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y map[string]any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && string(wire.Marshal(x)) == string(wire.Marshal(y))
}
