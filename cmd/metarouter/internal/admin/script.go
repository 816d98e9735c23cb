package admin

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func runScript(q *query, asked ScriptRequest) (any, error) {
	client := &nonInteractiveClient{yes: asked.Yes}
	part := func(ctx context.Context) *query { // of a call, which ends with the script
		return &query{Request: q.WithContext(ctx), API: q.API, view: q.view}
	}
	var acted atomic.Bool // a call may have had an effect, so that the script must not run again
	allow := func(t *registry.NormalizedTool) error {
		if _, unsafe := selector.Harmless(t); unsafe != "" && !asked.Yes {
			client.refuse(t.ID + ": " + unsafe)
			return fmt.Errorf("%s was not run: %s; --yes lets the script run it", t.ID, unsafe)
		}
		if !t.Reads() {
			acted.Store(true)
		}
		return nil
	}
	o := q.view.RunScript(q.Context(), selector.ScriptRun{
		Script: selector.Script{Code: asked.Code, Input: asked.Input, Timeout: asked.Timeout},
		Call: selector.Call{Client: "metarouter script", From: client, Unfit: func(t *registry.NormalizedTool) bool {
			_, unsafe := selector.Harmless(t)
			return unsafe != "" && !asked.Yes
		}},
		Tool: func(ctx context.Context, name string, _ session.Client) (*registry.NormalizedTool, error) {
			return resolve(part(ctx), name)
		},
		Find: func(ctx context.Context, task selector.Query) (selector.Ranking, error) {
			if err := part(ctx).awaitTools(false); err != nil {
				return selector.Ranking{}, err
			}
			return q.view.Find(ctx, task)
		},
		Allow: allow,
		Called: func(_ context.Context, t *registry.NormalizedTool, r selector.Result, err error) {
			client.ended(t, r.JSON, err)
		},
	})
	for _, question := range client.questions {
		q.note("%s", question)
	}
	if o.Calls == nil {
		o.Calls = []script.Made{}
	}
	if o.Err != nil {
		q.noteFailed(q.view.Servers(), true)
	}
	answer := Scripted{Script: o}
	if !acted.Load() {
		answer.Refused = client.refused
	}
	return answer, q.Context().Err()
}
