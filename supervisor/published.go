package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A published is the part of a server that others see while its life goes on: its status, and
// the instance that they use.
type published struct {
	woken    chan struct{} // of the server's control: asks for a start
	announce func()        // called after each change

	// loggedIn reports whether a server that needs a login has got one.
	loggedIn func(ctx context.Context) bool

	mu         sync.Mutex // guards the fields below
	current    *instance  // the shared session; nil if the server is not ready
	latest     *instance  // the session that was begun last, nil before the first
	state      status.Status
	doingSince time.Time     // when the step began that its start waits for
	tried      time.Time     // when the last start began
	starts     atomic.Int64  // how many starts have begun
	wanted     chan struct{} // closed when someone waits for the start that began last
	changed    signal.Change
}

func newPublished(entry config.Server, woken chan struct{}, announce func()) *published {
	state, reason := restState(entry)
	return &published{
		woken: woken, announce: announce, wanted: make(chan struct{}),
		state: status.Status{Name: entry.Name, State: cmp.Or(state, status.Starting), LastError: reason, Since: time.Now(), Transport: string(entry.Transport)},
	}
}

// set changes the status and wakes all who wait for a change.
func (p *published) set(change func(*status.Status)) {
	p.mu.Lock()
	before := p.state.State
	change(&p.state)
	if p.state.State != before {
		p.state.Since = time.Now()
	}
	p.changed.Notify()
	p.mu.Unlock()
	p.announce()
}

// edited forgets the failure of an entry that was replaced. Calls wait for a server that is enabled again while it stops. It is
// no change that others are woken for: the life follows it with one.
func (p *published) edited(entry config.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Transport, p.state.LastError, p.state.Fault = string(entry.Transport), "", nil
	if p.state.State == status.Stopping && entry.Startable() {
		p.state.State = status.Restarting
	}
}

// begin notes that a start begins. wanted is closed when someone waits for it.
func (p *published) begin() (wanted <-chan struct{}) {
	p.set(func(st *status.Status) {
		p.tried = time.Now()
		p.starts.Add(1)
		p.wanted = make(chan struct{}) // those that wait see the change, and close it again
		wanted = p.wanted
		if p.current == nil && st.State != status.Restarting {
			st.State = status.Starting
		}
	})
	return wanted
}

// want notes that someone waits for the server.
func (p *published) want() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !signal.IsClosed(p.wanted) {
		close(p.wanted)
	}
}

// opened notes a session that has begun, and may fail.
func (p *published) opened(in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = in
}

// do notes the step that the server's start waits for; "" is the server itself.
func (p *published) do(what string) {
	p.mu.Lock()
	same := p.state.Doing == what
	p.mu.Unlock()
	if !same {
		p.set(func(st *status.Status) { st.Doing, p.doingSince = what, time.Now() })
	}
}

// ready makes in the session that all use.
func (p *published) ready(in *instance) {
	p.set(func(st *status.Status) {
		p.current, st.Outdated = in, ""
		st.State, st.PID = status.Ready, in.pid()
		if st.Fault != nil && (st.Fault.Login != "" || st.Fault.Kind == status.PrintsText) { // somebody has logged in since, or it was slow
			st.LastError, st.Fault = "", nil
		}
		st.Era, st.ProtocolVersion = in.Info().Era(), in.Info().ProtocolVersion
	})
}

// printsText notes that the server of a session that is being opened writes text. The start goes
// on, since the text may come before the messages, but calls do not wait for it any longer.
func (p *published) printsText(in *instance, first string) {
	p.set(func(st *status.Status) {
		if p.current == nil && p.latest == in && (st.State == status.Starting || st.State == status.Restarting) {
			st.State, st.Fault = status.Failed, &status.Fault{Kind: status.PrintsText, Message: first}
			st.LastError = fmt.Sprintf("it prints text, not JSON-RPC: %q", first)
		}
	})
}

// withdraw takes in from use, if it is in use.
func (p *published) withdraw(in *instance, state status.State) {
	p.set(func(st *status.Status) {
		if p.current == in {
			p.current = nil
			st.State, st.PID = state, 0
		}
	})
}

// listed notes how a listing after the first ended; "" if it succeeded.
func (p *published) listed(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Outdated = fault
}

// now returns the shared session, nil if the server is not ready, and the state alone.
func (p *published) now() (*instance, status.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.state.State
}

// status returns the status as others see it.
func (p *published) status() status.Status {
	p.mu.Lock()
	st, latest, current := p.state, p.latest, p.current
	if st.Outdated != "" {
		st.LastError = st.Outdated
	} else if st.LastError == "" {
		st.LastError = waiting(st, p.doingSince)
	}
	p.mu.Unlock()
	if latest != nil {
		st.Stderr = latest.stderr.Last(10)
	}
	if current == nil {
		current = latest
	}
	if current != nil {
		current.Budget.Report(&st)
		st.StrayLine, st.Longest = current.conceal(plain.Line(st.StrayLine)), current.Calls.Longest()
	}
	return st
}

// waiting describes the step that a server's start waits for since a time; "" without one.
func waiting(st status.Status, since time.Time) string {
	if st.Doing == "" {
		return ""
	}
	return fmt.Sprintf("%s, for %s", st.Doing, time.Since(since).Round(time.Second))
}

// await returns the shared session. It waits until ctx ends while the server starts.
// It wakes an idle server, and a failed one unless it was tried lately. The session may be nil if personal, since each user has their own. Its error is
// an [*status.UnavailableError]. asked says that a person has asked for a start after so many, so that no other one counts; nil if none has.
func (p *published) await(ctx context.Context, personal bool, asked *int64) (*instance, error) {
	byHand := asked != nil
	for {
		p.mu.Lock()
		in, st, since, tried, starts, changed := p.current, p.state, p.doingSince, p.tried, p.starts.Load(), p.changed.Next()
		p.mu.Unlock()
		started := asked != nil && starts > *asked
		if (asked == nil || started) && (in != nil && in.Usable() || personal && in == nil && st.State == status.Ready) {
			return in, nil
		}
		switch st.State {
		case status.Idle:
			signal.Leave(p.woken)
		case status.Failed, status.NeedsAuth, status.Self:
			switch {
			case started, st.State == status.Self && !byHand, asked == nil && !isDue(ctx, p.loggedIn, st, tried):
				return nil, unavailableAs(st, since)
			case asked == nil:
				asked = new(starts)
				signal.Leave(p.woken)
			}
		case status.Misconfigured, status.Disabled, status.Stopping, status.Stopped:
			return nil, unavailableAs(st, since)
		}
		p.want()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, unavailableAs(st, since)
		}
	}
}

// isDue reports whether a call starts a server that has failed or needs a login or a token,
// and was tried last at the time tried.
func isDue(ctx context.Context, loggedIn func(context.Context) bool, st status.Status, tried time.Time) bool {
	if waitsForLogin(st) {
		return loggedIn(ctx)
	}
	if st.Fault != nil && st.Fault.Kind == status.PrintsText { // its start goes on
		return false
	}
	return time.Since(tried) >= retryOnCall
}

// waitsForLogin reports whether nothing but a login helps the server.
func waitsForLogin(st status.Status) bool {
	return st.State == status.NeedsAuth && st.Fault != nil && st.Fault.Login != "" && st.Fault.Login != status.IssuerUnreachable
}

// unavailableAs returns the error of a server in this status, the start of which waits since a time.
func unavailableAs(st status.Status, since time.Time) *status.UnavailableError {
	e := &status.UnavailableError{Server: st.Name, State: st.State, Reason: st.LastError}
	if st.Doing != "" && st.State != status.Failed { // a failed one may be printing text
		e.Reason = waiting(st, since)
	}
	if st.State == status.NeedsAuth && st.Fault != nil {
		e.Login = st.Fault.Login
	}
	return e
}

// wake asks for a start of an idle server, and of a failed one unless it was tried lately.
func (p *published) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.state.State
	if st == status.Idle || (st == status.Failed || st == status.NeedsAuth && !waitsForLogin(p.state)) && time.Since(p.tried) >= retryOnCall {
		signal.Leave(p.woken)
	}
}
