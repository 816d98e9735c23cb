package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// resumeWait is how long resume waits for an approval, and keepEnded how long the result of a held script is kept.
	resumeWait = 20 * time.Second
	keepEnded  = 10 * time.Minute
)

// Held are the scripts of clients that can't ask their persons: a call that needs an approval waits on the page, the client's
// request is answered, and the script goes on here.
type held struct {
	mu      sync.Mutex // guards the fields below
	byID    map[string]*heldScript
	running sync.WaitGroup
}

// A heldScript is the client of a held script's calls.
type heldScript struct {
	session.Client // that began the script
	id             string
	owner          any
	who            conversation.Identity
	what           [sha256.Size]byte // a hash of the request
	end            context.CancelCauseFunc
	changed        signal.Change // waits, or the end

	mu      sync.Mutex      // guards the fields below
	waits   int             // calls that wait for an approval
	asked   int             // calls that have waited
	known   int             // of these, those that the client was answered about
	done    []string        // the tools that were called and may have had an effect
	result  json.RawMessage // of the script, once over
	err     error
	over    bool
	fetched bool
	seen    time.Time // the client's last request about it
}

var (
	errOwnerLeft = errors.New("the client has left")
	errForgotten = errors.New("the script was held, and nobody answered")
)

// Unwrap returns the client, for [session.As].
func (h *heldScript) Unwrap() session.Client { return h.Client }

// Notify implements [session.Client]. No message reaches a request that was answered.
func (h *heldScript) Notify(server string, m session.Message) {
	h.mu.Lock()
	known := h.known
	h.mu.Unlock()
	if known == 0 {
		h.Client.Notify(server, m)
	}
}

// AwaitPage implements [approval.PageWaiter]: the script's time stands still while a call waits for an approval.
func (h *heldScript) AwaitPage(ctx context.Context) (answered func()) {
	goOn := script.Pause(ctx)
	h.add(1)
	return func() {
		h.add(-1)
		goOn()
	}
}

func (h *heldScript) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits += n
	h.asked += max(n, 0)
	h.changed.Notify()
}

// called notes a call of the script that has ended.
func (h *heldScript) called(_ context.Context, t *registry.NormalizedTool, r selector.Result, err error) {
	if err != nil || r.Err != nil || t.Reads() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, t.ID)
}

// await returns the script's result, or that it is held. wait is how long it waits for an answer about the calls that wait now.
func (h *heldScript) await(ctx context.Context, wait time.Duration, resumes string) (json.RawMessage, error) {
	late := time.After(wait)
	for {
		h.mu.Lock()
		changed := h.changed.Next()
		over := h.over
		held := !over && h.waits > 0 && (wait == 0 || h.asked > h.known)
		if held {
			h.known = h.asked
		}
		h.fetched, h.seen = over, time.Now()
		h.mu.Unlock()
		switch {
		case over:
			return h.result, h.err
		case held:
			return h.notice(resumes), nil
		}
		select {
		case <-changed:
		case <-late:
			wait, late = 0, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// notice is the answer that the script is held.
func (h *heldScript) notice(resumes string) json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	effects := "No call took effect so far."
	if len(h.done) > 0 {
		effects = "These calls took effect so far, in order: " + prose.List(h.done, 20)
	}
	text := fmt.Sprintf("The script is held: a call of it waits for an approval on the router's page (Approvals, /#approvals; 'metarouter dashboard' opens "+
		"the page), for at most %v. Ask the user to answer there. Then %s: the script goes on where it is, and no call is repeated.\n%s", approval.Lifetime, resumes, effects)
	return wire.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "_meta": map[string]string{"metarouter/script": h.id}})
}

// run runs a script for a client that can't ask its person, until the script ends or is held. The same request of the
// client, or of another one without a session of its principal, as one that is held goes on with that.
func (s *held) run(ctx context.Context, c *toolCall, resumes func(id string) string, run func(context.Context, *heldScript) (json.RawMessage, error)) (json.RawMessage, error) {
	what := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", c.Name, c.Args))
	if h := s.find(func(h *heldScript) bool { return h.what == what && h.owner == c.Owner() && h.isHeld() }); h != nil {
		return h.await(ctx, resumeWait, resumes(h.id))
	}
	within, end := context.WithCancelCause(context.WithoutCancel(ctx))
	h := &heldScript{Client: c.From, id: rand.Text(), owner: c.Owner(), who: c.Identity, what: what, end: end}
	s.mu.Lock()
	s.byID[h.id] = h
	s.running.Go(func() {
		defer end(nil)
		defer func() {
			if p := recover(); p != nil {
				h.ended(nil, c.Panicked(p))
			}
		}()
		h.ended(run(within, h))
	})
	s.mu.Unlock()
	result, err := h.await(ctx, 0, resumes(h.id))
	if ctx.Err() != nil {
		end(context.Cause(ctx))
	}
	if ctx.Err() == nil && h.isHeld() {
		s.expire(h)
	} else {
		s.forget(h)
	}
	return result, err
}

// ended notes the end of the script.
func (h *heldScript) ended(result json.RawMessage, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.result, h.err, h.over = result, err, true
	h.changed.Notify()
}

// resume goes on with a held script of the client.
func (s *held) resume(ctx context.Context, c *toolCall, id, resumes string) (json.RawMessage, error) {
	h := s.find(func(h *heldScript) bool { return h.id == id && h.owner == c.Owner() })
	if h == nil {
		return script.Outcome{Err: &script.Error{Name: "NotHeldError", Message: fmt.Sprintf("no script %q is held: its router has ended, or its result was kept for %v and nobody asked for it", id, keepEnded)}}.Result(), nil
	}
	return h.await(ctx, resumeWait, resumes)
}

// isHeld reports whether the client was told that the script is held, and does not have its result.
func (h *heldScript) isHeld() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known > 0 && !h.fetched
}

func (s *held) find(is func(*heldScript) bool) *heldScript {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.byID {
		if is(h) {
			return h
		}
	}
	return nil
}

func (s *held) forget(h *heldScript) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, h.id)
}

// expire ends and forgets a script once its client has not asked for it for long.
func (s *held) expire(h *heldScript) {
	h.mu.Lock()
	left := time.Until(h.seen.Add(approval.Lifetime + keepEnded))
	h.mu.Unlock()
	if left > 0 {
		time.AfterFunc(left, func() { s.expire(h) })
		return
	}
	h.end(errForgotten)
	s.forget(h)
}

// leave ends held scripts, of clients that have left.
func (s *held) leave(those func(*heldScript) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.byID {
		if those(h) {
			h.end(errOwnerLeft)
			delete(s.byID, id)
		}
	}
}
