package identity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// The audit log is bounded, so a client that can fill it can push out what it did before.
func TestClientsDoNotFillTheAuditLog(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	const tries = 10 * maxRefusedOf
	for i := range tries { // without a token
		if r, _ := s.do(http.MethodGet, fmt.Sprintf("/login/callback?state=%d", i), ""); r.StatusCode != http.StatusBadRequest {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	expect.Equal(t, len(s.taken()), maxRefusedOf, "%d refused logins are … events", tries)
	for range tries { // with a token, which has no login that could end
		if r, _ := s.do(http.MethodPost, "/logout", "{}", "Authorization", "Bearer good", "Content-Type", "application/json"); r.StatusCode != http.StatusNoContent {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	if all := loginsIn(s.taken()); len(all) > 0 {
		t.Errorf("logouts without a login are %d events", len(all))
	}
}

// Refusals of one kind do not keep those of another one out.
func TestRefusalsAreCountedByAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []audit.Event
		a := newTrail(func(e audit.Event) { all = append(all, e) })
		for i := range 2 * maxRefused {
			a.refused(audit.Event{Action: audit.Request, From: fmt.Sprint(i)})
		}
		a.refused(audit.Event{Action: audit.LogIn, From: "0"})
		if n := len(all); n != maxRefused+2 || all[n-1].Action != audit.LogIn {
			t.Errorf("%d events, the last %+v", n, all[n-1])
		}
		if before := all[len(all)-2]; before.Reason != fmt.Sprintf("%d more requests were refused before", maxRefused) {
			t.Errorf("the event before is %+v", before)
		}
	})
}

// An issuer has as many users as it likes. Those that are left out are recorded later.
func TestNewPrincipalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []audit.Event
		a := newTrail(func(e audit.Event) { all = append(all, e) })
		come := func(from int) {
			for i := range maxCame {
				r, who := httptest.NewRequest(http.MethodPost, "/mcp", nil), clientauth.Principal{Hash: fmt.Sprint(from + i)}
				a.came(r, who)
				a.came(r, who)
			}
		}
		come(0)
		come(maxCame)
		expect.Equal(t, len(all), maxCame, "events")
		time.Sleep(time.Minute)
		synctest.Wait()
		come(maxCame)
		expect.Equal(t, len(all), 2*maxCame, "a minute later there are … events")
	})
}
