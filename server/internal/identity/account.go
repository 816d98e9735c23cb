package identity

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	cleaned "github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// accountPath is the page on which users set values of their own. Users who are no administrators see no other page.
const accountPath = "/account"

// accountTime bounds how long the store takes: its keyring may show a dialog.
const accountTime = 20 * time.Second

// hasAccounts reports whether users have anything of their own, so that all of them may log in.
func hasAccounts(l *login) bool { return l.Accounts != nil && l.Accounts.Personal() }

// homeOf returns the first page of a principal.
func homeOf(who clientauth.Principal) string {
	if who.Admin {
		return "/"
	}
	return accountPath
}

// account shows the values that the user sets for servers, and sets them.
func account(l *login, w http.ResponseWriter, r *http.Request, c *Sender) *Denial {
	ctx, cancel := context.WithTimeout(r.Context(), accountTime)
	defer cancel()
	status, problem := http.StatusOK, ""
	switch r.Method {
	case http.MethodPost:
		if r.Header.Get("Origin") == "" || l.foreign.Check(r) != nil {
			return &Denial{Status: http.StatusForbidden, Err: conversation.InvalidRequest("only the router's own page may set a value")}
		}
		name := r.PostFormValue("name")
		err := l.Accounts.SetUserValue(ctx, c.Principal.Hash, c.Principal.Profile, name, r.PostFormValue("value"))
		e := audit.Event{Action: audit.Secret, Outcome: audit.OK, Principal: c.Principal.Name, From: Hostname(r.RemoteAddr), Target: conversation.Brief(name), Reason: "the user has set their own value"}
		if err == nil {
			l.Audit.Record(e)
			http.Redirect(w, r, c.Rules.At(accountPath), http.StatusSeeOther)
			return nil
		}
		status, problem = http.StatusBadRequest, cleaned.Text(err.Error())
	case http.MethodGet, http.MethodHead:
	default:
		return notGet(w, r)
	}
	set, err := l.Accounts.UserValues(ctx, c.Principal.Hash, c.Principal.Profile)
	if err != nil {
		status, problem = http.StatusServiceUnavailable, cleaned.Text(err.Error())
	}
	offer := loginOffer{Try: c.Rules.At(accountPath), Problem: problem, User: cmp.Or(cleaned.Text(c.Principal.Name), "the local user"), Values: set}
	writePage(w, status, "login.html", offer, "'self'", "same-origin")
	return nil
}
