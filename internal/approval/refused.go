package approval

import (
	"fmt"
	"time"
)

// A Why says why a call was not made.
type Why int

// The reasons.
const (
	Declined   Why = iota // a person said no
	Closed                // a person closed the question
	Late                  // no answer came in time
	Waits                 // the client can't ask; the request waits on the page
	Full                  // the client can't ask; the page has too many requests
	Unanswered            // the question to the client's person failed
)

// A Refused is the error for a call that was not approved.
type Refused struct {
	Request Request
	Why     Why
	By      string    // the admin who said no, "" for the client's person
	Until   time.Time // with Waits: when the request leaves the page

	err error
}

func (e *Refused) Unwrap() error { return e.err }

// Error names the call that was not run, the reason, and the next step.
func (e *Refused) Error() string {
	r := &e.Request
	text := fmt.Sprintf("%s was not run: %s", r.Name(), r.Reason)
	switch e.Why {
	case Declined, Closed:
		who := "the person at the client"
		if e.By != "" {
			who = name(e.By) + " (on the router's page)"
		}
		if e.Why == Closed {
			return text + ", and " + who + " closed the question without an answer. Do not send the call again unless that person wants it"
		}
		return text + ", and " + who + " declined. Do not send the call again unless that person wants it"
	case Late:
		if r.Script != "" {
			return fmt.Sprintf("%s, and nobody answered within %v", text, Lifetime)
		}
		return fmt.Sprintf("%s, and nobody answered within %v. Send the call again when a person can answer", text, Lifetime)
	case Unanswered:
		return fmt.Sprintf("%s, and %v", text, e.err)
	case Full:
		return text + ", this client can't be asked (it declares no elicitation), and too many calls wait on the router's page. " +
			"Have an admin answer those, or wait some minutes. " + e.advice()
	}
	if r.Script != "" {
		return text + ", and this client can't be asked. " + e.advice()
	}
	return fmt.Sprintf("%s, and this client can't be asked (it declares no elicitation). The call waits on the router's page until %s: "+
		"once an admin has approved it there (Approvals, /#approvals; 'metarouter dashboard' opens the page), send the same call again. %s",
		text, e.Until.Format(time.TimeOnly+" MST"), e.advice())
}

// advice says how such calls need no approval.
func (e *Refused) advice() string {
	return `To be asked by the client, use one that supports elicitation; to allow such calls for good, edit "ask" of the profile`
}
