package signin

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

const (
	resource = "https://tools.example/mcp"
	redirect = "https://tools.example/login/callback"
)

// begun returns a login that has begun: its state, the browser and the redirect of the issuer.
func begun(t *testing.T, l *Logins, i *fakeissuer.Issuer) (state, browser string, back url.Values) {
	t.Helper()
	at, browser, err := l.Begin(t.Context(), clientauth.Issuer{URL: i.URL, ClientID: "router", ClientSecret: "secret", Read: []string{"a"}, Call: []string{"b", "a"}}, resource, redirect)
	expect.OK(t, err)
	to, err := fakeissuer.Redirected(t.Context(), at)
	expect.OK(t, err)
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, redirect+"?") {
		t.Fatalf("%s, %v", to, err)
	}
	return u.Query().Get("state"), browser, u.Query()
}

// A login takes at most 10 minutes, and is completed once.
func TestLogins(t *testing.T) {
	issuer := fakeissuer.New(t, fakeissuer.Options{Clients: map[string]string{"router": "secret"}})
	l := &Logins{}
	_, browser, back := begun(t, l, issuer)
	s, err := l.Complete(t.Context(), browser, back)
	if err != nil || s.Issuer != issuer.URL {
		t.Fatalf("%v, %v", s, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, s); strings.Contains(text, s.Access()) || s.token.Refresh != "" && strings.Contains(text, s.token.Refresh) {
			t.Errorf("%s prints a token: %s", verb, text)
		}
	}
	if _, err := l.Complete(t.Context(), browser, back); !errors.Is(err, ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	state, browser, back := begun(t, l, issuer)
	l.pending[state].begun = time.Now().Add(-Life)
	if _, err := l.Complete(t.Context(), browser, back); !errors.Is(err, ErrUnknown) {
		t.Errorf("after 10 minutes: %v", err)
	}
	_, browser, back = begun(t, l, issuer)
	if _, err := l.Complete(t.Context(), browser[1:], back); !errors.Is(err, ErrUnknown) {
		t.Errorf("another browser: %v", err)
	}
	if _, err := l.Complete(t.Context(), "", url.Values{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("nothing: %v", err)
	}
	expect.Equal(t, len(l.pending), 0, "are under way")
}

// Only so many logins are under way: the oldest end.
func TestLoginsAreBounded(t *testing.T) {
	l, now := &Logins{}, time.Now()
	for i := range 2 * maxPending {
		l.add(fmt.Sprint(i), &pending{begun: now.Add(time.Duration(i) * time.Millisecond)})
	}
	if _, oldest := l.pending[fmt.Sprint(maxPending)]; len(l.pending) != maxPending || !oldest {
		t.Errorf("%d", len(l.pending))
	}
	l.add("late", &pending{begun: now.Add(Life + time.Hour)})
	if len(l.pending) != 1 {
		t.Errorf("%d are too old", len(l.pending)-1)
	}
}

// An issuer's refusal says what to do about it in our configuration.
func TestAdvice(t *testing.T) {
	issuer := fakeissuer.New(t, fakeissuer.Options{Clients: map[string]string{"router": "secret"}, RefuseResource: true})
	l := &Logins{}
	_, browser, back := begun(t, l, issuer)
	if _, err := l.Complete(t.Context(), browser, back); err == nil || !strings.Contains(err.Error(), `"audience"`) {
		t.Errorf("%v", err)
	}
	issuer.Change(func(o *fakeissuer.Options) { o.RefuseResource = false })
	at, browser, err := l.Begin(t.Context(), clientauth.Issuer{URL: issuer.URL, ClientID: "router", ClientSecret: "wrong"}, resource, redirect)
	expect.OK(t, err)
	to, err := fakeissuer.Redirected(t.Context(), at)
	expect.OK(t, err)
	u, _ := url.Parse(to)
	if _, err := l.Complete(t.Context(), browser, u.Query()); err == nil || !strings.Contains(err.Error(), `"clientSecret"`) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
}
