package admin

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// Loaded records that the router uses c from now on. It must not be called at the same time as Judged.
func (a *API) Loaded(c config.Config) {
	a.mask.Learn(c)
	shown := &configuration{
		Files: append([]string{}, c.Files...), Loaded: time.Now(), Problems: append([]config.Problem{}, c.Problems...), Entries: []entry{},
	}
	for _, s := range c.Servers {
		shown.Entries = append(shown.Entries, entryOf(s))
	}
	if was := a.configuration(); was != nil {
		shown.unused = was.unused
	}
	a.shown.Store(shown)
}

// configuration returns the configuration as the page shows it. The pointer changes with it.
func (a *API) configuration() *configuration { return a.shown.Load() }

func entryOf(s config.Server) entry {
	e := entry{Name: s.Name, Transport: string(s.Transport), Env: names(s.Env), Headers: names(s.Headers)}
	if s.Command != "" {
		e.Command = doctor.CommandLine(s)
	}
	if s.URL != "" {
		e.URL, _ = doctor.BareURL(s)
	}
	return e
}

func names[T any](values map[string]T) []string { return slices.Sorted(maps.Keys(values)) }

// Judged records why the files' present content is not in use; nil if it is in use.
func (a *API) Judged(err error) {
	why, approve := "", ""
	if w, ok := errors.AsType[*configfile.Waiting](err); ok {
		why, approve = w.Untrusted.Error(), w.Command
	} else if err != nil {
		why = err.Error()
	}
	shown := *a.configuration()
	shown.Rejected, shown.Approve, shown.unused = why, approve, err
	a.shown.Store(&shown)
}

// judgement returns why the files' present content is not in use; nil if it is.
func (a *API) judgement() error { return a.configuration().unused }

// settle waits until the router has taken an edit that was saved, or approved, a moment ago,
// for a few seconds at most. It reads the files only where there may be such an edit.
func (a *API) settle(ctx context.Context) {
	_, waits := errors.AsType[*trustfile.Untrusted](a.judgement())
	if !a.options.Watched || !waits && !slices.ContainsFunc(a.router.Configured().Files, justSaved) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	signal.Poll(ctx, 10*time.Millisecond, func() bool { return !isPending(a.router, a.judgement(), a.options.DataDir) })
}

// justSaved reports whether a file was saved within the last seconds.
func justSaved(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()).Abs() < 2*time.Second
}

// isPending reports whether a router is about to use the text that the files have now. why is its last
// judgement, and data the folder with approvals.
func isPending(r *adapter.Router, why error, data string) bool {
	uses := r.Configured()
	c, err := config.LoadText(uses.Files...)
	u, waits := errors.AsType[*trustfile.Untrusted](why)
	switch {
	case err != nil:
		return false
	case waits:
		return u.Text.Digest() == c.Text.Digest() && c.Text.Trusted(data) == nil
	case why != nil:
		return false
	case c.Text.Digest() != uses.Text.Digest():
		return true
	}
	has := named(r.Servers())
	return slices.ContainsFunc(uses.Servers, func(s config.Server) bool { return !slices.Contains(has, s.Name) })
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
