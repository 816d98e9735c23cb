package admin

import (
	"cmp"
	"errors"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// GET /dashboard/approvals answers with the calls that wait for a person's approval. POST
// /dashboard/approvals/ID/approve and POST /dashboard/approvals/ID/deny answer one;
// approve-all also approves further calls of the tool by the same script.
type approvals struct {
	Approvals []approval.Pending `json:"approvals"` // the oldest first
}

func listApprovals(q *query) (any, error) {
	return approvals{q.router.Approvals().List()}, nil
}

func answerApproval(q *query) (any, error) {
	desk, id, by, err := q.router.Approvals(), q.PathValue("id"), clientauth.PrincipalOf(q.Context()).Name, error(nil)
	call := pendingCall(desk, id)
	switch q.PathValue("action") {
	case "approve", "approve-all":
		approve := desk.Approve
		if q.PathValue("action") == "approve-all" {
			approve = desk.ApproveAll
		}
		err = approve(id, by)
		q.record(audit.Event{Action: audit.Approval, Outcome: audit.OK, Target: call, Reason: "approved"}, err)
	case "deny":
		err = desk.Deny(id, by)
		q.record(audit.Event{Action: audit.Approval, Outcome: audit.Refused, Target: call, Reason: "declined"}, err)
	default:
		err = errors.New("a call can be approved or denied, and all such calls of its script approved (approve-all)")
	}
	if err != nil {
		return nil, notFound(err)
	}
	return struct{}{}, nil
}

// pendingCall names a call that waits, and its client; "" if it no longer waits.
func pendingCall(desk *approval.Desk, id string) string {
	for _, p := range desk.List() {
		if p.ID == id {
			return strings.TrimSuffix(p.Server+":"+p.Tool+" for "+cmp.Or(p.Principal, p.Client), " for ")
		}
	}
	return ""
}
