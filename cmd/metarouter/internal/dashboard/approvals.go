package dashboard

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/internal/approval"
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
	switch r.PathValue("action") {
	case "approve":
		err = desk.Approve(id, by)
	case "deny":
		err = desk.Deny(id, by)
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
