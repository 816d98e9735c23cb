// Package audit keeps a log of what administrators and principals do besides calls: JSON lines,
// each with the hash of the line before, so that an edit shows.
package audit

// An Event is one thing that someone did or tried. All texts are bounded and cleaned when it is
// recorded. It never has a secret.
type Event struct {
	Action    string `json:"action"`              // one of the constants
	Outcome   string `json:"outcome"`             // OK, Refused or Failed
	Principal string `json:"principal,omitempty"` // its name; "" if it is not known
	From      string `json:"from,omitempty"`      // the address, "stdio", "terminal" or "file"
	Target    string `json:"target,omitempty"`    // such as the server, the tool or the path
	Reason    string `json:"reason,omitempty"`    // why it was refused or failed, or what changed
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
)

// A Recorder takes events. It is called by many goroutines at once. Nil records nothing.
type Recorder func(Event)

// Record records an event, unless r is nil.
func (r Recorder) Record(e Event) {
	if r != nil {
		r(e)
	}
}
