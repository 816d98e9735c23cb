package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// edits is the last judgement of the pipeline on the files' present text. The zero value says
// that the text is in use.
type edits struct {
	mu      sync.Mutex // guards the fields below
	why     error      // why the text is not in use; nil if it is
	changed chan struct{}

	unwatched bool // the files are read on SIGHUP only
}

// judge is for [service.Service.Judged].
func (e *edits) judge(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = why
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// now returns a channel that is closed at the next judgement, and this one.
func (e *edits) now() (changed <-chan struct{}, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed, e.why
}

// waiting returns the edit that waits for approval, nil if none does.
func (e *edits) waiting() (u *config.Untrusted, changed <-chan struct{}) {
	changed, why := e.now()
	u, _ = errors.AsType[*config.Untrusted](why)
	return u, changed
}

// settle waits until the router has taken an edit that was saved, or approved, a moment ago,
// for a few seconds at most.
func (e *edits) settle(ctx context.Context, data string, r *adapter.Parts) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var text config.Config
	if u, changed := e.waiting(); u == nil {
		if e.unwatched {
			return
		}
		var saved bool
		if text, saved = justSaved(r.Configured().Files); !saved {
			return
		}
	} else if text = u.Text; text.Trusted(data) != nil {
		return
	} else {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !hasEntries(r, text) {
		if _, why := e.now(); why != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// justSaved returns the text of the files if one of them was saved within the last seconds.
func justSaved(files []string) (text config.Config, ok bool) {
	const moment = 2 * time.Second
	if !slices.ContainsFunc(files, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && time.Since(info.ModTime()).Abs() < moment
	}) {
		return text, false
	}
	text, err := config.LoadText(files...)
	return text, err == nil
}

// hasEntries reports whether the router has the servers of the text.
func hasEntries(r *adapter.Parts, text config.Config) bool {
	has := r.Servers()
	return r.Configured().Digest() == text.Digest() && len(has) == len(text.Servers) && !slices.ContainsFunc(text.Servers, func(s config.Server) bool {
		return !slices.ContainsFunc(has, func(is adapter.ServerInfo) bool { return is.Name == s.Name })
	})
}

// noteEdit says on stderr why the files' present text is not in use by the running router.
func noteEdit(env *environment) {
	if _, why := env.running.edits.now(); why != nil {
		env.Note("note: the last edit is not in use: %v", forAsker(env, why))
	}
}

// isInWaitingEdit returns an error if a server is only in an edit that waits for approval.
func isInWaitingEdit(env *environment, name string) error {
	if env.running == nil {
		return nil
	}
	named := func(s config.Server) bool { return s.Name == name }
	u, _ := env.running.edits.waiting()
	if u == nil || !slices.ContainsFunc(u.Text.Servers, named) || slices.ContainsFunc(env.running.router.Config().Servers, named) {
		return nil
	}
	return exit.Usage(fmt.Errorf("server %q is in an edit that waits for your approval: %w", name, forAsker(env, u)))
}

// forAsker returns a judgement for the process that asks the running router: the command that
// approves the edit is the one to type there.
func forAsker(env *environment, why error) error {
	u, ok := errors.AsType[*config.Untrusted](why)
	if !ok {
		return why
	}
	file := ""
	if len(env.files.Paths) > 0 { // else the process has found it in its folder
		file = u.Text.Files[0]
	}
	return trust.Explain(u, env.files.TrustCommand(file))
}

// askAboutEdits returns a listener that asks the person at the terminal about each edit that
// waits. A yes approves the text that was shown, and no other.
func askAboutEdits(env *environment, said *edits, log *zap.Logger) service.Listener {
	return func(ctx context.Context, _ *adapter.Parts, _ *server.Servers) error {
		answered := "" // the digest of the last text that was answered for
		for {
			u, changed := said.waiting()
			if u == nil || u.Text.Digest() == answered {
				select {
				case <-changed:
				case <-ctx.Done():
					return nil
				}
				continue
			}
			yes, err := trust.Ask(ctx, env.Console, u)
			if err != nil {
				return nil // the router ends, or the terminal has gone
			}
			switch still, _ := said.waiting(); {
			case still == nil:
				env.Note("No answer is needed any more.")
				continue
			case still.Text.Digest() != u.Text.Digest():
				env.Note("The file has changed since it was shown, so nothing was approved.")
				continue
			case yes:
				if err := u.Text.Trust(env.files.Data); err != nil {
					log.Warn("the edit is not approved", zap.Error(err))
				}
			default:
				env.Note("The edit is not in use. To approve it later, run: %s", env.files.TrustCommand(u.Text.Files[0]))
			}
			answered = u.Text.Digest()
		}
	}
}
