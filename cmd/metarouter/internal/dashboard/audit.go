package dashboard

import (
	"net"
	"net/http"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/server"
)

// actor returns who sends a request of the page.
func actor(r *http.Request) audit.Actor {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a socket, by which 'metarouter dashboard' comes
		from = "page"
	}
	return audit.Actor{Principal: server.PrincipalOf(r.Context()).Name, From: from}
}

// byActor returns the request with a context that says who sends it.
func byActor(r *http.Request) *http.Request { return r.WithContext(audit.By(r.Context(), actor(r))) }

// record records what was done on the page. err is why it failed.
func (d *Dashboard) record(r *http.Request, e audit.Event, err error) {
	who := actor(r)
	e.Principal, e.From = who.Principal, who.From
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, e.Reason+": "+err.Error()
	}
	d.router.Audit(e)
}
