// Package audit keeps a log of the acts of administrators and principals besides calls: logins,
// refusals, approvals, stops of servers, edits of the configuration.
//
// The log is a file of JSON lines. Each line has its number and the SHA-256 of the line before,
// so that an edit, a missing line or another order shows: see [Verify]. The hashes need no key.
// Who can write to the file can write all of it again, or cut off its end: that shows only to
// someone who noted the hash of a line elsewhere.
//
// A [Log] writes. Several processes may write to the same file. A full file is renamed to its
// name and a number (audit.jsonl.1, audit.jsonl.2, …; the highest is the newest), and the first
// line of the next file continues the chain.
package audit

import (
	"context"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// An Event is one act, or an attempt at one. All texts are bounded and cleaned when it is
// recorded. It never has a secret or an argument of a call.
type Event struct {
	Action    string `json:"action"`              // one of the constants
	Outcome   string `json:"outcome"`             // OK, Refused or Failed
	Principal string `json:"principal,omitempty"` // its name; "" if it is not known
	From      string `json:"from,omitempty"`      // the address, "stdio", "terminal" or "file"
	Target    string `json:"target,omitempty"`    // such as the server, the tool or the path
	Reason    string `json:"reason,omitempty"`    // why it was refused or failed, or the change
}

// Outcomes.
const (
	OK      = "ok"
	Refused = "refused"
	Failed  = "failed"
)

// Actions. Others may be added by who needs them.
const (
	Request  = "request"  // a request was refused, or the first one of a principal was let in
	LogIn    = "login"    // at the page
	LogOut   = "logout"   // of the page
	Approval = "approval" // of a call
	Control  = "control"  // a server was stopped, started, restarted, enabled or disabled; a setting was changed
	Edit     = "edit"     // the configuration
	Remote   = "remote"   // a login or a logout at a remote server
	Router   = "router"   // the router started or ended
	Secret   = "secret"   // a secret or a token was made, set or removed
)

// Actions by which the log speaks of itself.
const (
	Gap      = "gap"      // events are missing, or an incomplete line at the end was cut off
	Tampered = "tampered" // another program has changed or removed lines
)

// A Recorder takes events. It is called by many goroutines at once. Nil records nothing.
type Recorder func(Event)

// Record records an event, unless r is nil.
func (r Recorder) Record(e Event) {
	if r != nil {
		r(e)
	}
}

// An Actor is who does something. The zero value is a person at a terminal of this machine.
type Actor struct {
	Principal string // its name; "" if it is not known
	From      string // as [Event.From]; "" is "terminal"
}

type actorKey struct{}

// By returns a context for acts of the actor.
func By(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// ActorOf returns the actor of the context.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	if a.From == "" {
		a.From = "terminal"
	}
	return a
}

const (
	maxWord   = 64  // bytes of an action and of an outcome
	maxText   = 256 // bytes of a principal, an address and a target
	maxReason = 512 // bytes of a reason

	// maxMasked bounds the part of a text in which secrets are looked for. The text just before its
	// end is not shown: half a secret does not look like one.
	maxMasked = 4 << 10
	cutMargin = 512
)

// cleaned returns the event with bounded texts of one line, and a target and a reason without secrets. The others have none: a user's
// secret that reads like a name must not hide who did something.
func (e Event) cleaned(mask func(string) string) Event {
	all := func(s string) string { return s }
	e.Action, e.Outcome = short(e.Action, maxWord, all), short(e.Outcome, maxWord, all)
	e.Principal, e.From = short(e.Principal, maxText, all), short(e.From, maxText, all)
	e.Target, e.Reason = short(e.Target, maxText, mask), short(e.Reason, maxReason, mask)
	return e
}

// short returns the beginning of a text as one line, without secrets.
func short(s string, limit int, mask func(string) string) string {
	cut := len(s) > maxMasked
	s = plain.Line(mask(strings.ToValidUTF8(s[:min(len(s), maxMasked)], "�")))
	if cut {
		s = prose.Cut(s, max(len(s)-cutMargin, len("…")))
	}
	return prose.Cut(s, limit)
}
