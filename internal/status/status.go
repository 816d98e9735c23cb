// Package status says how a server is: where in its life, and why it is not ready. Package
// supervisor fills it in; frontends read it and need nothing else of the supervisor.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A State says where a server is in its life.
type State string

const (
	Starting      State = "starting"      // its first session is being opened
	Ready         State = "ready"         // it has a session
	Idle          State = "idle"          // it does not run, and the next call starts it
	Restarting    State = "restarting"    // it ended, and is being started again
	Failed        State = "failed"        // it ended too often; tried again now and then
	NeedsAuth     State = "needs_auth"    // it asks for a token; tried again after a login, or now and then if no login helps
	Misconfigured State = "misconfigured" // its entry can't be used
	Disabled      State = "disabled"      // its entry says so
	Stopping      State = "stopping"      // it is being stopped
	Stopped       State = "stopped"       // the router is going away
	Self          State = "self"          // its entry would start a router
)

// States are all states.
var States = []State{Starting, Ready, Idle, Restarting, Failed, NeedsAuth, Misconfigured, Disabled, Stopping, Stopped, Self}

var verbs = map[State]string{Failed: "failed", NeedsAuth: "needs a token", Self: "is this router itself"}

// Verb returns the state as the verb of a sentence about the server: "failed", "is ready".
func (s State) Verb() string { return cmp.Or(verbs[s], "is "+string(s)) }

// Verb returns the status as the verb of a sentence about the server, as [State.Verb] does: a
// server that needs a login "needs a login".
func (s Status) Verb() string {
	if s.State == NeedsAuth && s.Fault != nil && s.Fault.Login != "" {
		return verbLogin
	}
	return s.State.Verb()
}

const verbLogin = "needs a login"

// A Status is a server's state at one moment.
type Status struct {
	Name            string
	State           State
	Transport       string
	Era             string // "legacy", "modern", or "" before the first session
	ProtocolVersion string
	PID             int // 0 if no process runs
	Restarts        int
	LastError       string    // why it is not ready, or was not before; "" if nothing went wrong
	Stderr          []string  // its last stderr lines
	Doing           string    // why its start waits; "" if it waits only for the server
	StrayLines      int64     // lines on its stdout that were no messages, in its latest session
	StrayLine       string    // the first of them that can't hold a result, cut if long
	Notes           []string  // its tolerated breaches of the protocol, as "writes …", in its latest session
	Repairs         []Repair  // of its results and of arguments for its tools, since the router started
	Refused         int64     // its questions to clients (sampling, elicitation, roots, ping) that a rule forbade, so far
	RefusedBy       string    // the rule that the last of them broke
	Outdated        string    // why its changed lists could not be read, so that the old ones stay; "" if they could
	Flood           Flood     // messages without a request beyond the limit, in its latest session
	Unusable        Unusable  // messages that could not be passed on, in its latest session
	Sessions        []Session // next to the one that clients share, by PID
	Unshared        bool      // clients share none

	Fault    *Fault        // the cause of LastError; nil if nothing went wrong
	Reverted bool          // the entry before an edit runs, since the edited one does not start
	Since    time.Time     // when it entered its state
	Took     time.Duration // how long its last successful start took, without waiting for its turn
	Fetching time.Duration // the part of Took in which a package was looked up or fetched; 0 if that is unknown
	Longest  time.Duration // for how long the oldest call of a tool has been under way, in its latest session; 0 without one
	Cached   bool          // the package was only looked up: npx had it before
	Package  string        // the package that npx runs, as name@version; "" if that is unknown
}

// A Repair is one kind of repair of results or arguments.
type Repair struct {
	Of    string // "results" or "arguments"
	What  string // was done, as "content: made an array of text"
	Times int
}

// Repaired lists the repairs of the results or of the arguments, and how often each was; "" without repairs.
func (s Status) Repaired(of string) string {
	var all []string
	for _, r := range s.Repairs {
		if r.Of == of {
			all = append(all, fmt.Sprintf("%s (%s)", r.What, prose.Count(r.Times, "time")))
		}
	}
	return strings.Join(all, ", ")
}

// Tolerated sums up the server's breaches of the protocol and the repairs; "" without any.
func (s Status) Tolerated() string {
	all := slices.Clone(s.Notes)
	for _, of := range []string{"results", "arguments"} {
		if text := s.Repaired(of); text != "" {
			all = append(all, "repaired "+of+": "+text)
		}
	}
	return strings.Join(all, "; ")
}

// A Session is one that only some clients use.
type Session struct {
	PID    int    // 0 if the server is remote
	For    string // who uses it, such as "claude-code alone"
	Reason string // why they do not use the shared one, as the end of a sentence
}

// maxSessions is how many sessions [Status.Several] describes.
const maxSessions = 4

// Several says which processes a ready server has, and why; "" if it has one.
func (s Status) Several() string {
	if s.State != Ready || len(s.Sessions) == 0 {
		return ""
	}
	noun, which := "processes", func(pid int) string { return fmt.Sprintf("PID %d", pid) }
	if s.PID == 0 {
		noun, which = "sessions", func(int) string { return "one" }
	}
	text := fmt.Sprintf("%d %s: %s is shared", len(s.Sessions)+1, noun, which(s.PID))
	if s.Unshared {
		text = fmt.Sprintf("%s: %d, none is shared", noun, len(s.Sessions))
	}
	for i, one := range s.Sessions {
		if i == maxSessions {
			return text + fmt.Sprintf("; and %d more", len(s.Sessions)-i)
		}
		text += fmt.Sprintf("; %s is for %s, since %s", which(one.PID), one.For, one.Reason)
	}
	return text
}

// Unusable counts messages of a server that could not be passed on. Requests that they answer
// fail.
type Unusable struct {
	Count int64
	Last  string // how the last one came, such as "with bytes that are not UTF-8 …"
}

// A Flood is about messages without a request that a server sent beyond the limit. The zero value
// is no flood.
type Flood struct {
	PerSecond int64  // the most in a second
	Method    string // of one of them; "" if they were no messages, or answers to no request
	Dropped   int64  // messages that were not passed on
}

// An UnavailableError says why a server has no session. It wraps
// [session.ErrNotSent].
type UnavailableError struct {
	Server string
	State  State // "" if no server has that name
	Reason string
	Login  LoginReason // why a login would help; "" if it would not
}

func (e *UnavailableError) Error() string {
	switch {
	case e.State == "":
		return fmt.Sprintf("no server is named %q", e.Server)
	case e.State == Disabled && e.Reason == "":
		return fmt.Sprintf("server %q is disabled; 'metarouter enable %s --write' enables it, or 'metarouter restart %s' if it was stopped by hand", e.Server, commandline.Quote(e.Server), commandline.Quote(e.Server))
	}
	verb := e.State.Verb()
	if e.Login != "" {
		verb = verbLogin
	}
	if e.Reason == "" {
		return fmt.Sprintf("server %q %s", e.Server, verb)
	}
	return fmt.Sprintf("server %q %s: %s", e.Server, verb, strings.TrimPrefix(e.Reason, verb+": "))
}

func (e *UnavailableError) Unwrap() error { return session.ErrNotSent }

// A Server is the state of one server, and its use.
type Server struct {
	Status
	Calls   int  // that run
	Waiting int  // calls that wait for one of these to end
	Tools   int  // known tools, whether or not the server runs
	ByHand  bool // turned on or off by hand
}

// Named returns the server of the name, and whether there is one.
func Named(servers []Server, name string) (s Server, ok bool) {
	i := slices.IndexFunc(servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return servers[i], true
}

// ByCluster is the transport of servers on other nodes.
const ByCluster = "cluster"

// Node returns the name of the node that has the server; "" for a server of this router, and for one
// with replicas on several nodes.
func (s Server) Node() string {
	at := strings.LastIndexByte(s.Name, '@')
	if s.Transport != ByCluster || at < 0 {
		return ""
	}
	return s.Name[at+1:]
}
