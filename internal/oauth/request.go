package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	maxBody        = 1 << 20  // bytes of an issuer's answer
	maxToken       = 64 << 10 // bytes of a token, a code
	maxID          = 4 << 10  // bytes of a client's ID, a URL
	maxDescription = 300      // bytes of an issuer's words
)

// A reply is an issuer's answer to a request, a JSON object.
type reply map[string]json.RawMessage

// text returns a field that is a string; "" if it is not there or something else.
func (r reply) text(name string) string {
	var text string
	json.Unmarshal(r[name], &text)
	return text
}

// form sends a form to an endpoint of the issuer, with who the client is.
func (g *Grantor) form(ctx context.Context, kind, endpoint string, form url.Values) (reply, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if err := g.authenticate(form, header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return post(ctx, g.HTTP, kind, endpoint, header, form.Encode(), g.secretsOf(form, header))
}

// secretsOf returns the secrets of a request, encoded and plain, which no error may repeat.
func (g *Grantor) secretsOf(form url.Values, header http.Header) []string {
	_, proof, _ := strings.Cut(header.Get("Authorization"), " ")
	all := []string{proof, g.Client.Secret}
	for _, name := range []string{"code", "code_verifier", "refresh_token", "device_code", "client_secret", "client_assertion", "token", "subject_token", "assertion"} {
		all = append(all, form.Get(name))
	}
	for _, secret := range all {
		all = append(all, url.QueryEscape(secret))
	}
	return all
}

// ErrNotSent is in the error of a request that was not sent: the issuer did nothing for it.
var ErrNotSent = errors.New("the request was not sent")

// post sends a request to an endpoint of an issuer. The error is a [*Refusal] if the issuer sent
// one, and wraps [ErrNotSent] if no connection to it was made. kind names the endpoint; no error
// has the secrets, nor the query of the endpoint. The client bounds the time.
func post(ctx context.Context, c *http.Client, kind, endpoint string, header http.Header, body string, secrets []string) (reply, error) {
	if err := checkEndpoint(kind, endpoint); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the %s endpoint is not a URL", kind)
	}
	req.Header = header.Clone()
	req.Header.Set("Accept", "application/json") // GitHub answers with a form otherwise
	at := fmt.Sprintf("%s endpoint of %s", kind, req.URL.Host)
	resp, err := Unredirected(c).Do(req)
	if err != nil {
		err = fmt.Errorf("ask the %s: %w", at, urls.Cause(err))
		if !connected {
			err = fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	data, err := readAll(resp.Body, maxBody)
	if err != nil {
		return nil, fmt.Errorf("read the answer of the %s: %w", at, err)
	}
	return readReply(at, resp.StatusCode, data, secrets)
}

// readReply reads an answer of the endpoint at.
func readReply(at string, status int, data []byte, secrets []string) (reply, error) {
	var r reply
	err := json.Unmarshal(data, &r)
	code := r.text("error")
	switch {
	case status >= 300 && status < 400:
		return nil, fmt.Errorf("the %s redirects (status %d): a request with credentials does not follow", at, status)
	case status >= 500, status == http.StatusTooManyRequests && code == "":
		return nil, fmt.Errorf("the %s fails for now (status %d)", at, status)
	case code != "": // with any status: GitHub sends 200
		return nil, newRefusal(code, r.text("error_description"), status, secrets)
	case status < 200 || status >= 300:
		return nil, fmt.Errorf("the %s %w (status %d)", at, errSilent, status)
	case err != nil || r == nil:
		return nil, fmt.Errorf("the answer of the %s is %w", at, errNoObject)
	}
	return r, nil
}

var errNoObject, errSilent = errors.New("not a JSON object"), errors.New("refuses without saying why") // which a proxy may do

// Unredirected returns the client, but without redirects: they would send credentials elsewhere.
func Unredirected(c *http.Client) *http.Client {
	same := *c
	same.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &same
}

// checkEndpoint refuses a URL that is not https, or http on this machine.
func checkEndpoint(kind, endpoint string) error {
	if endpoint == "" {
		return fmt.Errorf("the issuer has no %s endpoint", kind)
	}
	u, err := url.Parse(endpoint)
	if err == nil && len(endpoint) <= maxID && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && urls.IsLoopback(u.Hostname())) {
		return nil
	}
	return fmt.Errorf("the %s endpoint of the issuer is not a URL with https", kind)
}

// knownAs are codes of single issuers, and the code of RFC 6749 that they mean.
var knownAs = map[string]string{
	"bad_refresh_token":            "invalid_grant", // GitHub
	"bad_verification_code":        "invalid_grant",
	"incorrect_client_credentials": "invalid_client",
}

// newRefusal returns the error of an issuer, as a person may read it: bounded, on one line,
// without the secrets.
func newRefusal(code, description string, status int, secrets []string) *Refusal {
	if known, ok := knownAs[code]; ok {
		code = known
	}
	for _, secret := range secrets {
		if secret != "" {
			description = strings.ReplaceAll(description, secret, "…")
			code = strings.ReplaceAll(code, secret, "…")
		}
	}
	return &Refusal{Code: shorten(code, 64), Description: oneLine(description), Status: status}
}

// oneLine returns a stranger's text as one line, bounded.
func oneLine(text string) string { return shorten(text, maxDescription) }

func shorten(text string, most int) string {
	return prose.Cut(strings.TrimSpace(plain.Line(text[:min(len(text), 8*most)])), most)
}
