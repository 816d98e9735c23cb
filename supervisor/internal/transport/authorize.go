package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Tokens give the requests to one server their bearer token, as a [*login.Source] does.
type Tokens interface {
	// Token returns the token of a request, or "" to send it without.
	Token(ctx context.Context) (string, error)

	// Refused is called with a response that asks for another token than this one. It returns
	// nil if there is one by now. Else the error is a [*login.NeededError] if a login helps.
	Refused(ctx context.Context, token string, resp *http.Response) error
}

const authorization = "Authorization"

// do sends the request that build returns. If the server refuses it for its headers or its token, do sends it
// once more with new ones. An error wraps [session.ErrNotSent] or [session.ErrClosed],
// according to the knowledge of it, or is a [*NeedsAuthError] or a [*RedirectError].
func (s *Site) do(ctx context.Context, build func() (*http.Request, error)) (*http.Response, error) {
	e, err := s.once(build)
	if err != nil {
		return nil, err
	}
	var failed error // to renew the headers
	if code := e.resp.StatusCode; s.Renew != nil && (code == http.StatusUnauthorized || code == http.StatusForbidden) {
		var others bool
		if others, failed = s.renewHeaders(ctx, e.headers); others {
			discardBody(e.resp)
			if e, err = s.once(build); err != nil {
				return nil, err
			}
		}
	}
	if !asksForToken(e.resp) {
		return e.resp, nil
	}
	if s.Tokens != nil && e.authorization == bearer(e.token) {
		return s.reauthorize(ctx, build, e)
	}
	discardBody(e.resp)
	return nil, &NeedsAuthError{Status: e.resp.StatusCode, HadToken: e.authorization != "", Renewal: failed}
}

// An exchange is a request that was sent once, and its response.
type exchange struct {
	headers       *map[string]string // of the site, when the request was made, or before
	token         string             // of the login, that the request has; "" without
	authorization string             // its header
	resp          *http.Response
}

// once sends the request that build returns.
func (s *Site) once(build func() (*http.Request, error)) (e exchange, err error) {
	e.headers = s.headers.Load()
	r, err := build()
	if err != nil {
		return e, fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	if e.token, err = s.authorize(r); err != nil {
		return e, err
	}
	e.authorization = r.Header.Get(authorization)
	e.resp, err = s.send(r)
	return e, err
}

// authorize sets the token of a request that has no Authorization header. It returns that
// token; may be "".
func (s *Site) authorize(r *http.Request) (string, error) {
	if s.Tokens == nil || r.Header.Get(authorization) != "" {
		return "", nil
	}
	token, err := s.Tokens.Token(r.Context())
	switch {
	case r.Context().Err() != nil:
		return "", fmt.Errorf("%w: %w", session.ErrNotSent, context.Cause(r.Context()))
	case errors.As(err, new(*login.NeededError)):
		return "", &NeedsAuthError{Status: http.StatusUnauthorized, Login: err}
	case err != nil:
		return "", fmt.Errorf("%w: %w", session.ErrNotSent, err)
	case token != "":
		r.Header.Set(authorization, bearer(token))
	}
	return token, nil
}

// reauthorize sends a request once more that was refused with the token, if there is
// another one by now.
func (s *Site) reauthorize(ctx context.Context, build func() (*http.Request, error), e exchange) (*http.Response, error) {
	for again := false; ; again = true {
		why := s.Tokens.Refused(ctx, e.token, e.resp)
		discardBody(e.resp)
		needs := &NeedsAuthError{Status: e.resp.StatusCode, HadToken: e.token != ""}
		switch {
		case why == nil && again:
			return nil, fmt.Errorf("%w: the server refused two tokens of its login, and there is a third", session.ErrNotSent)
		case why != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, context.Cause(ctx))
		case errors.As(why, new(*login.NeededError)):
			needs.Login = why
			return nil, needs
		case why != nil:
			needs.NoLogin = why
			return nil, needs
		}
		var err error
		if e, err = s.once(build); err != nil || !asksForToken(e.resp) {
			return e.resp, err
		}
	}
}

// bearer returns the Authorization header of a token, "" for no token.
func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// asksForToken reports whether the server refuses a request for its token, or for the lack of
// one.
func asksForToken(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && resp.Header.Get("WWW-Authenticate") != ""
}

// A NeedsAuthError is the answer of a server that asks for a token. It wraps Login.
type NeedsAuthError struct {
	Status   int  // of the HTTP response
	HadToken bool // the request had an Authorization header

	Renewal error // why its secrets could not be read again; nil if they could, or without secrets
	Login   error // a [*login.NeededError], nil if no login helps
	NoLogin error // why no login helps; nil if that is not known
}

// forAll reports whether other requests would be refused too: 403 may concern only
// this one.
func (e *NeedsAuthError) forAll() bool { return e.Status == http.StatusUnauthorized }

func (e *NeedsAuthError) Unwrap() error { return e.Login }

// Is implements the interface of [errors.Is].
func (e *NeedsAuthError) Is(target error) bool {
	return target == session.ErrForbidden && !e.forAll()
}

func (e *NeedsAuthError) Error() string {
	needed, _ := errors.AsType[*login.NeededError](e.Login)
	switch {
	case needed != nil:
		return "needs a login: " + needed.Advice()
	case e.Renewal != nil:
		return fmt.Sprintf("the secret in its headers is refused (HTTP %d), and no other one is known: %v", e.Status, e.Renewal)
	case errors.Is(e.NoLogin, login.ErrNoOAuth):
	case e.NoLogin != nil && !e.forAll():
		return fmt.Sprintf("the server refuses the request (HTTP %d): %v", e.Status, e.NoLogin)
	case e.NoLogin != nil:
		return fmt.Sprintf(`needs a token, and none could be got: %v; if it takes tokens of another kind, put "Authorization": "Bearer ${TOKEN}" into the entry's headers`, e.NoLogin)
	case e.HadToken:
		return fmt.Sprintf("needs a token, since the one in \"Authorization\" of the entry's headers is refused (HTTP %d)", e.Status)
	}
	return `needs a token; put "Authorization": "Bearer ${TOKEN}" into the entry's headers`
}
