package admin

import (
	"cmp"
	"errors"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
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
	answers := map[string]approval.Answer{"approve": approval.Accept, "approve-all": approval.AcceptAll, "deny": approval.Decline}
	said, ok := answers[q.PathValue("action")]
	if !ok {
		return nil, notFound(errors.New("a call can be approved or denied, and all such calls of its script approved (approve-all)"))
	}
	desk, id := q.router.Approvals(), q.PathValue("id")
	event := audit.Event{Action: audit.Approval, Outcome: audit.OK, Target: pendingCall(desk, id), Reason: "approved"}
	if said == approval.Decline {
		event.Outcome, event.Reason = audit.Refused, "declined"
	}
	err := desk.Decide(id, said, clientauth.PrincipalOf(q.Context()).Name)
	q.record(event, err)
	if err != nil {
		return nil, notFound(err)
	}
	return struct{}{}, nil
}

// pendingCall names a call that waits, and its client; "" if it no longer waits.
func pendingCall(desk *adapter.Desk, id string) string {
	for _, p := range desk.List() {
		if p.ID == id {
			return strings.TrimSuffix(p.Server+":"+p.Tool+" for "+cmp.Or(p.Principal, p.Client), " for ")
		}
	}
	return ""
}
