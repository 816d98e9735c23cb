package dashboard

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/server"
)

// GET /dashboard/approvals answers with the calls that wait for a person's approval. POST
// /dashboard/approvals/ID/approve and POST /dashboard/approvals/ID/deny answer one.
type approvals struct {
	Approvals []approval.Pending `json:"approvals"` // the oldest first
}

// approvals answers GET /dashboard/approvals.
func (d *Dashboard) approvals(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, approvals{d.router.Approvals().List()})
}

// decide answers POST /dashboard/approvals/ID/ACTION.
func (d *Dashboard) decide(w http.ResponseWriter, r *http.Request) {
	desk, id, by, err := d.router.Approvals(), r.PathValue("id"), server.PrincipalOf(r.Context()).Name, error(nil)
	call := pendingCall(desk, id)
	switch r.PathValue("action") {
	case "approve":
		err = desk.Approve(id, by)
		d.record(r, audit.Event{Action: audit.Approval, Outcome: audit.OK, Target: call, Reason: "approved"}, err)
	case "deny":
		err = desk.Deny(id, by)
		d.record(r, audit.Event{Action: audit.Approval, Outcome: audit.Refused, Target: call, Reason: "declined"}, err)
	default:
		refuse(w, http.StatusNotFound, "a call can be approved or denied")
		return
	}
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// pendingCall names the call that waits, and for whom; "" if it no longer does.
func pendingCall(desk *adapter.Desk, id string) string {
	for _, p := range desk.List() {
		if p.ID == id {
			return strings.TrimSuffix(p.Server+":"+p.Tool+" for "+cmp.Or(p.Principal, p.Client), " for ")
		}
	}
	return ""
}
