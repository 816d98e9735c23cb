//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A guarded server is an MCP server that has a real issuer check each token.
type guarded struct {
	issuer *external.Issuer
	url    string

	mu       sync.Mutex // guards the fields below
	accepted []string   // tokens, each once
}

func startGuarded(t *testing.T, issuer *external.Issuer) *guarded {
	t.Helper()
	g := &guarded{issuer: issuer}
	behind := fakeserver.Handler("-tools", "echo")
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	g.url = server.URL + "/mcp"
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	mux.HandleFunc("GET "+metadata, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools:list","tools:call"]}`, g.url, issuer.URL)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		ok := false
		if token != "" {
			var err error
			if ok, err = issuer.Accepts(token, g.url); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", server.URL+metadata))
			http.Error(w, "refused", http.StatusUnauthorized)
			return
		}
		g.accept(token)
		behind.ServeHTTP(w, r)
	})
	return g
}

func (g *guarded) accept(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.accepted) == 0 || g.accepted[len(g.accepted)-1] != token {
		g.accepted = append(g.accepted, token)
	}
}

// tokens returns how many tokens were accepted, and the last one.
func (g *guarded) tokens() (n int, last string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = len(g.accepted); n > 0 {
		last = g.accepted[n-1]
	}
	return n, last
}

// A person has a browser that keeps cookies, and answers each form that an issuer shows.
type person struct {
	browser *http.Client
	fields  map[string]string // of forms: what the person enters
}

var errStay = errors.New("the browser can't reach the callback")

// newPerson returns a person. A browser that is elsewhere can't reach the callback.
func newPerson(t *testing.T, elsewhere bool) *person {
	jar, err := cookiejar.New(nil)
	expect.OK(t, err)
	browser := &http.Client{Jar: jar, Timeout: 2 * time.Minute}
	t.Cleanup(browser.CloseIdleConnections)
	if elsewhere {
		browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == "/callback" {
				return errStay
			}
			return nil
		}
	}
	return &person{browser, map[string]string{"login": "anna", "password": "secret"}}
}

var (
	formTag   = regexp.MustCompile(`(?is)<form[^>]*\saction="([^"]*)"[^>]*>(.*?)</form>`)
	inputTag  = regexp.MustCompile(`(?is)<input[^>]*>`)
	nameAttr  = regexp.MustCompile(`(?is)\sname="([^"]*)"`)
	valueAttr = regexp.MustCompile(`(?is)\svalue="([^"]*)"`)
)

// visit opens a page and submits its form, the form of the next page, and so on. It returns the URL at
// which the browser ends.
func (p *person) visit(ctx context.Context, address string) (end string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	for range 10 {
		if err != nil {
			return "", err
		}
		resp, err := p.browser.Do(req)
		if failed := (*url.Error)(nil); errors.As(err, &failed) && errors.Is(err, errStay) {
			return failed.URL, nil
		}
		if err != nil {
			return "", err
		}
		page, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		if resp.StatusCode >= 400 {
			return "", fmt.Errorf("%s: %s: %s", resp.Request.URL.Redacted(), resp.Status, page)
		}
		form := formTag.FindSubmatch(page)
		if form == nil {
			return resp.Request.URL.String(), nil
		}
		if req, err = p.submit(ctx, resp.Request.URL, string(form[1]), string(form[2])); err != nil {
			return "", err
		}
	}
	return "", errors.New("the issuer asks more than 10 times")
}

func (p *person) submit(ctx context.Context, page *url.URL, action, inputs string) (*http.Request, error) {
	target, err := page.Parse(html.UnescapeString(action))
	if err != nil {
		return nil, err
	}
	values := url.Values{}
	for _, input := range inputTag.FindAllString(inputs, -1) {
		name, value := nameAttr.FindStringSubmatch(input), valueAttr.FindStringSubmatch(input)
		switch {
		case name == nil:
		case p.fields[name[1]] != "":
			values.Set(name[1], p.fields[name[1]])
		case value != nil:
			values.Set(name[1], html.UnescapeString(value[1]))
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(values.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, err
}

// atRealIssuer prepares a router of a server that trusts a real issuer, and that needs a login.
func atRealIssuer(t *testing.T, life time.Duration) (*setup, *guarded, *mcptest.Client) {
	t.Helper()
	g := startGuarded(t, external.StartIssuer(t, life))
	s := prepare(t, entries{"guarded": {"type": "http", "url": g.url}}, nil)
	s.home = t.TempDir()
	router := s.serve("--mode", "direct")
	r := call(t, router, guardedTool, `{}`)
	if !r.IsError || !strings.Contains(r.text(), "metarouter login guarded") {
		t.Fatalf("a call without a login: %s", r.text())
	}
	return s, g, router
}

const guardedTool = "guarded__echo"

// A login at an issuer that strangers wrote: its tokens are refreshed, outlive the router, and end
// with the logout.
func TestRealIssuer(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s, g, router := atRealIssuer(t, 10*time.Second)
	c := s.begin("login", "guarded", "--no-browser")
	_, err := newPerson(t, false).visit(within(t), c.line())
	expect.OK(t, err)
	c.succeed()
	mustCall(t, router, guardedTool, `{}`)
	mcptest.WaitFor(t, "two refreshes", func() bool {
		mustCall(t, router, guardedTool, `{}`)
		n, _ := g.tokens()
		return n >= 3
	})
	expect.OK(t, router.Close())

	router = s.serve("--mode", "direct")
	mustCall(t, router, guardedTool, `{}`)
	if _, stderr, code := s.run("logout", "guarded"); code != 0 {
		t.Fatalf("logout: %s", stderr)
	}
	_, last := g.tokens()
	if ok, err := g.issuer.Accepts(last, g.url); ok || err != nil {
		t.Errorf("after the logout, the issuer accepts the token: %v (%v)", ok, err)
	}
	mcptest.WaitFor(t, "the router to notice the logout", func() bool { return call(t, router, guardedTool, `{}`).IsError })
	if files, _ := filepath.Glob(filepath.Join(s.home, "config", "metarouter", "*")); len(files) == 0 {
		t.Error("the test does not keep its logins in its own folder")
	}
}
