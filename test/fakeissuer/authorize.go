package fakeissuer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// authorize grants at once and redirects to the client.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c, err := i.clientOf(r.Context(), q.Get("client_id"))
	if err == nil {
		err = i.checkRedirect(c, q.Get("redirect_uri"))
	}
	if err != nil { // no redirect: the client may be an attacker's
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	o := i.options
	back := url.Values{}
	if state := q.Get("state"); state != "" {
		back.Set("state", state)
	}
	switch {
	case o.OmitIss:
	case o.Iss != "":
		back.Set("iss", o.Iss)
	default:
		back.Set("iss", i.URL)
	}
	switch {
	case o.Deny:
		back.Set("error", "access_denied")
	case q.Get("response_type") != "code":
		back.Set("error", "unsupported_response_type")
	case q.Get("code_challenge") == "" || q.Get("code_challenge_method") != "S256":
		back.Set("error", "invalid_request")
		back.Set("error_description", "PKCE with S256 is required")
	case o.RefuseResource && q.Has("resource"):
		back.Set("error", "invalid_target")
	default:
		i.counts.Authorizations++
		code := "code-" + rand.Text()
		i.codes[code] = &grant{
			client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"),
			resource: q.Get("resource"), account: q.Get("account"), scopes: i.granted(q.Get("scope")), expires: time.Now().Add(time.Minute), family: newFamily(),
		}
		back.Set("code", code)
	}
	to := q.Get("redirect_uri")
	if o.RedirectTo != "" {
		to = o.RedirectTo
	}
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	http.Redirect(w, r, to+separator+back.Encode(), http.StatusFound)
}

// As returns an authorization URL for a person who chooses the account.
func As(account, authorization string) string {
	return authorization + "&account=" + url.QueryEscape(account)
}

// granted returns the scopes that are granted. The lock must be held.
func (i *Issuer) granted(asked string) []string {
	if i.options.GrantedScopes != nil {
		return i.options.GrantedScopes
	}
	return strings.Fields(asked)
}

// clientOf returns the client with the ID, which may be the URL of a document.
func (i *Issuer) clientOf(ctx context.Context, id string) (client, error) {
	i.mu.Lock()
	c, ok := i.clients[id]
	documents := i.options.ClientDocuments
	i.mu.Unlock()
	switch {
	case ok:
		return c, nil
	case !documents || !strings.HasPrefix(id, "http"):
		return client{}, fmt.Errorf("the client %q is not known", id)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return client{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return client{}, err
	}
	defer resp.Body.Close()
	var document struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&document); err != nil {
		return client{}, fmt.Errorf("the document of the client: %w", err)
	}
	if document.ID != id {
		return client{}, fmt.Errorf("the document %q is that of the client %q", id, document.ID)
	}
	return client{redirects: document.Redirects}, nil
}

func (i *Issuer) checkRedirect(c client, uri string) error {
	i.mu.Lock()
	strict := i.options.StrictRedirect
	i.mu.Unlock()
	fits := func(registered string) bool {
		return registered == uri || !strict && withoutPort(registered) == withoutPort(uri)
	}
	if c.any || slices.ContainsFunc(c.redirects, fits) {
		return nil
	}
	return fmt.Errorf("the redirect URI %q is not registered", uri)
}

// withoutPort removes the port of a URI on this machine (RFC 8252, section 7.3).
func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		u.Host = u.Hostname()
	}
	return u.String()
}

// Follow opens an authorization URL as a browser does, through all redirects, and returns the
// status and the text of the page at the end.
func Follow(ctx context.Context, authorization string) (status int, page string, err error) {
	resp, err := open(ctx, http.DefaultClient, authorization)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}

// Redirected opens an authorization URL and returns the URL to which the issuer redirects. It does
// not go there: so does a browser on another machine, whose person copies that URL.
func Redirected(ctx context.Context, authorization string) (string, error) {
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := open(ctx, stay, authorization)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return "", fmt.Errorf("the issuer answers %s: %s", resp.Status, text)
	}
	return resp.Header.Get("Location"), nil
}

func open(ctx context.Context, c *http.Client, address string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &cancelling{resp.Body, cancel}
	return resp, nil
}

// cancelling releases the deadline of a request with its body.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}
