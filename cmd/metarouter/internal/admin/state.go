package admin

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	maxClients = 100 // that a page lists
	maxLabel   = 100 // columns of a client's name or version
)

// clientsOf returns the clients that the router serves, the oldest first.
func clientsOf(a *API) *clientList {
	known, configured := a.mcp.Clients(), a.router.Config().Router.Profiles
	list := &clientList{Total: len(known), Clients: []clientInfo{}}
	for _, k := range known {
		era := "legacy"
		switch k.Revision {
		case "":
			era = ""
		case session.Modern:
			era = "modern"
		}
		k.Name, k.Version = console.Cut(plain.Line(k.Name), maxLabel), console.Cut(plain.Line(k.Version), maxLabel)
		k.Since, k.Last = k.Since.Truncate(0), k.Last.Truncate(0) // without the monotonic clock
		list.Clients = append(list.Clients, clientInfo{k, era, profilesOf(k.Profile, configured)})
	}
	slices.SortFunc(list.Clients, func(a, b clientInfo) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name)) })
	list.Clients = list.Clients[:min(len(list.Clients), maxClients)]
	return list
}

// profilesOf returns the limits of a client. It has chosen profiles, unions of them and [profile.ReadOnly],
// joined by "+".
func profilesOf(chosen string, all map[string]config.Profile) []string {
	return profile.Applying(all, strings.FieldsFunc(chosen, func(r rune) bool { return r == '+' }))
}

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
func pendingCall(desk *approval.Desk, id string) string {
	for _, p := range desk.List() {
		if p.ID == id {
			return strings.TrimSuffix(p.Server+":"+p.Tool+" for "+cmp.Or(p.Principal, p.Client), " for ")
		}
	}
	return ""
}
