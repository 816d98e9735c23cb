package admin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// Edits has the last judgement of the pipeline on the files' present text. The zero value says
// that the text is in use.
type Edits struct {
	mu      sync.Mutex // guards why
	why     error      // why the text is not in use; nil if it is
	changed signal.Change

	Unwatched bool // the files are read on SIGHUP only
}

// Judge records a judgement: why the text is not in use, nil if it is.
func (e *Edits) Judge(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = why
	e.changed.Notify()
}

// Now returns a channel that is closed at the next judgement, and this one.
func (e *Edits) Now() (changed <-chan struct{}, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed.Next(), e.why
}

// Waiting returns the edit that waits for approval, nil if there is no such edit.
func (e *Edits) Waiting() (u *trustfile.Untrusted, changed <-chan struct{}) {
	changed, why := e.Now()
	u, _ = errors.AsType[*trustfile.Untrusted](why)
	return u, changed
}

// settle waits until the router has taken an edit that was saved, or approved, a moment ago,
// for a few seconds at most.
func (e *Edits) settle(ctx context.Context, data string, r *adapter.Parts) {
	if e.Unwatched {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for e.isPending(data, r) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// isPending reports whether the router is about to use the text that the files have now.
func (e *Edits) isPending(data string, r *adapter.Parts) bool {
	uses := r.Configured()
	c, err := config.LoadText(uses.Files...)
	u, _ := e.Waiting()
	_, why := e.Now()
	switch {
	case err != nil:
		return false
	case u != nil:
		return u.Text.Digest() == c.Text.Digest() && c.Text.Trusted(data) == nil
	case why != nil:
		return false
	case c.Text.Digest() != uses.Text.Digest():
		return true
	}
	runs := make(map[string]bool)
	for _, s := range r.Servers() {
		runs[s.Name] = true
	}
	return slices.ContainsFunc(uses.Servers, func(s config.Server) bool { return !runs[s.Name] })
}

// noteEdit notes why the files' present text is not in use.
func (q *query) noteEdit() {
	if _, why := q.options.Edits.Now(); why != nil {
		q.note("note: the last edit is not in use: %v", q.explain(why))
	}
}

// explain returns a judgement for the person who asks: the command that approves the edit is the one
// to type there. The parameter named=1 says that their command line names the configuration.
func (q *query) explain(why error) error {
	u, ok := errors.AsType[*trustfile.Untrusted](why)
	if !ok {
		return why
	}
	file := ""
	if q.has("named") || !fromCommand(q.Request) { // else the process has found it in its folder
		file = u.Text.Files[0]
	}
	return configfile.Explain(u, q.options.TrustCommand(file))
}
