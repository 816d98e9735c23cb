package identity

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
func begunAt(t *testing.T, l *signIns, i *fakeissuer.Issuer) (state, browser string, back url.Values) {
	t.Helper()
	at, browser, err := l.begin(t.Context(), clientauth.Issuer{URL: i.URL, ClientID: "router", ClientSecret: "secret", Read: []string{"a"}, Call: []string{"b", "a"}}, resource, redirect)
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
func TestSignIns(t *testing.T) {
	issuer := fakeissuer.New(t, fakeissuer.Options{Clients: map[string]string{"router": "secret"}})
	l := &signIns{byState: make(map[string]*signIn)}
	_, browser, back := begunAt(t, l, issuer)
	s, err := l.complete(t.Context(), browser, back)
	if err != nil || s.issuer != issuer.URL {
		t.Fatalf("%v, %v", s, err)
	}
	if _, err := l.complete(t.Context(), browser, back); !errors.Is(err, errNoSignIn) {
		t.Errorf("again: %v", err)
	}
	state, browser, back := begunAt(t, l, issuer)
	l.byState[state].begun = time.Now().Add(-signInTime)
	if _, err := l.complete(t.Context(), browser, back); !errors.Is(err, errNoSignIn) {
		t.Errorf("after 10 minutes: %v", err)
	}
	_, browser, back = begunAt(t, l, issuer)
	if _, err := l.complete(t.Context(), browser[1:], back); !errors.Is(err, errNoSignIn) {
		t.Errorf("another browser: %v", err)
	}
	if _, err := l.complete(t.Context(), "", url.Values{}); !errors.Is(err, errNoSignIn) {
		t.Errorf("nothing: %v", err)
	}
	expect.Equal(t, len(l.byState), 0, "are under way")
}

// Only so many logins are under way: the oldest end.
func TestSignInsUnderWayAreBounded(t *testing.T) {
	l, now := &signIns{byState: make(map[string]*signIn)}, time.Now()
	for i := range 2 * maxSignIns {
		l.add(fmt.Sprint(i), &signIn{begun: now.Add(time.Duration(i) * time.Millisecond)})
	}
	if _, oldest := l.byState[fmt.Sprint(maxSignIns)]; len(l.byState) != maxSignIns || !oldest {
		t.Errorf("%d", len(l.byState))
	}
	l.add("late", &signIn{begun: now.Add(signInTime + time.Hour)})
	expect.Equal(t, len(l.byState), 1, "%d are too old", len(l.byState)-1)
}

// An issuer's refusal says what to do about it in our configuration.
func TestAdvice(t *testing.T) {
	issuer := fakeissuer.New(t, fakeissuer.Options{Clients: map[string]string{"router": "secret"}, RefuseResource: true})
	l := &signIns{byState: make(map[string]*signIn)}
	_, browser, back := begunAt(t, l, issuer)
	if _, err := l.complete(t.Context(), browser, back); err == nil || !strings.Contains(sentence(err), `"audience"`) {
		t.Errorf("%v", err)
	}
	issuer.Change(func(o *fakeissuer.Options) { o.RefuseResource = false })
	at, browser, err := l.begin(t.Context(), clientauth.Issuer{URL: issuer.URL, ClientID: "router", ClientSecret: "wrong"}, resource, redirect)
	expect.OK(t, err)
	to, err := fakeissuer.Redirected(t.Context(), at)
	expect.OK(t, err)
	u, _ := url.Parse(to)
	if _, err := l.complete(t.Context(), browser, u.Query()); err == nil || !strings.Contains(sentence(err), `"clientSecret"`) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
}
