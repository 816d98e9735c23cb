package admin

import (
	"errors"
	"net/http"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/plan"
	"github.com/mcp-metarouter/metarouter/config"
)

// plan answers POST /dashboard/plan. Only commands of this machine may have files read.
func (a *API) plan(q *query) (any, error) {
	if !fromCommand(q.Request) {
		return nil, &failed{http.StatusForbidden, errors.New("only a command of the router's machine may send this")}
	}
	next, err := config.Load(q.FormValue("file"))
	if err != nil {
		return nil, wrong(configfile.Unreadable(err))
	}
	now := a.router.Config()
	p := plan.Compare(plan.SideOf(now, adapter.NewPreview(now, nil, a.options.DataDir)), plan.SideOf(next, adapter.NewPreview(next, &now, a.options.DataDir)))
	return Planned{Plan: p, Before: p.Before, After: p.After, Mode: p.Mode, Restart: p.Restart}, nil
}

// classify answers POST /dashboard/classify.
func (a *API) classify(q *query) (any, error) {
	var asked ClassifyRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	k := a.router.Config().Router.Classification
	if k != nil && k.Outside != nil && k.Outside.Server != "" {
		_ = q.scope.Await(q.Context(), k.Outside.Server) // it may take longer to start than a classification may take
	}
	o, err := q.scope.Classifier().Classify(q.Context(), asked.Text)
	switch {
	case errors.Is(err, classify.ErrNoCategories):
		return nil, err
	case err != nil:
		return nil, wrong(err)
	}
	if k == nil || len(k.Categories) == 0 && k.Outside == nil {
		q.note(`no categories are configured, so the tags of tools are the categories; write your own into "metarouter": {"classification": {"categories": [{"name": "…", "examples": ["…"]}]}}`)
	}
	return Classified{o, o.Categories}, q.Context().Err()
}
