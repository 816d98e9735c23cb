package bearer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

const (
	inactiveTime  = 10 * time.Second // for which a refusal counts
	seenTime      = 24 * time.Hour   // for which a token that was valid counts as seen
	maxQuestions  = 8                // at an issuer at once
	maxUnseen     = 4                // of these, about tokens that were not seen
	unseenRate    = 10               // a second, at an issuer, from one network
	unseenBurst   = 20
	maxTokenReply = 64 << 10 // bytes
)

// ask asks the issuers about a token that is no JWT. Callers with the same token share the questions. seen is the token as
// its issuer knew it before; may be nil.
func (v *Verifier) ask(ctx context.Context, accepted []Issuer, token string, sum [sha256.Size]byte, seen *verified) (*verified, error) {
	select {
	case r := <-v.asking.DoChan(string(sum[:]), func() (any, error) {
		return v.askAll(accepted, token, sum, seen, clientauth.NetworkOf(ctx))
	}):
		t, _ := r.Val.(*verified)
		if t != nil && !slices.Contains(accepted, t.issuer.settings) { // it was asked before an edit
			return v.ask(ctx, accepted, token, sum, nil)
		}
		return t, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askAll asks in the order of the issuers until one knows the token; if one knew it before, that one alone.
// Where one can't be asked, the token may be its own: it is not shown to those after it, who could use it.
func (v *Verifier) askAll(accepted []Issuer, token string, sum [sha256.Size]byte, seen *verified, from string) (_ *verified, refused error) {
	var first *issuer
	for _, settings := range accepted {
		if !settings.Introspect || seen != nil && seen.issuer.settings != settings {
			continue
		}
		i := v.issuer(settings, accepted)
		t, err := i.question(token, seen != nil, from)
		if err == nil {
			v.kept.put(sum, verdict{token: t, issuer: i, fresh: time.Now().Add(keepTime)}, seenTime)
			return t, nil
		}
		if _, is := errors.AsType[*clientauth.Refusal](err); !is {
			return nil, err
		}
		if first == nil {
			first, refused = i, err
		}
	}
	if first == nil {
		return nil, invalid("it is no signed JWT that names its issuer (iss)")
	}
	last := inactiveTime
	if seen != nil { // it stays known as the issuer's own
		last = seenTime
	}
	v.kept.put(sum, verdict{token: seen, refused: refused, issuer: first, fresh: time.Now().Add(inactiveTime)}, last)
	return nil, refused
}

// question asks the issuer, unless it must be left alone. seen says that the token was valid before, from which network it came.
func (i *issuer) question(token string, seen bool, from string) (*verified, error) {
	i.mu.Lock()
	paused := i.failed != nil && time.Since(i.failedAt) < retryTime
	i.mu.Unlock()
	switch {
	case paused:
		return nil, fmt.Errorf("%w: it was asked just before", ErrUnavailable)
	case !seen && i.unseen.Take(from, 1, 1) > 0:
		return nil, fmt.Errorf("%w: too many unknown tokens came at once", ErrUnavailable)
	}
	if !i.life.Begin() {
		return nil, errClosed
	}
	defer i.life.Work.Done()
	ctx, cancel := context.WithTimeout(i.life.Context(), requestTime)
	defer cancel()
	turns := []chan struct{}{i.slots}
	if !seen {
		turns = []chan struct{}{i.strange, i.slots}
	}
	for _, turn := range turns {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: it has too many questions to answer", ErrUnavailable)
		}
	}
	claims, err := i.post(ctx, token)
	i.mu.Lock()
	before := i.failed
	i.failed, i.failedAt = err, time.Now()
	if status, _ := errors.AsType[statusError](err); status == http.StatusBadRequest { // because of this token, perhaps
		i.failedAt = time.Time{}
	}
	i.mu.Unlock()
	if i.life.Cause() == nil {
		report(i.log, before, err, "the issuer can't be asked about tokens", "the issuer can be asked about tokens again")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	t, err := i.judge(claims)
	if err != nil && seen {
		err = genuine(err)
	}
	return t, err
}

// post sends the token to the issuer and returns its answer.
func (i *issuer) post(ctx context.Context, token string) (map[string]json.RawMessage, error) {
	m, err := i.describe(ctx)
	if err != nil {
		return nil, err
	}
	if m.IntrospectionEndpoint == "" {
		return nil, errors.New("its metadata name no introspection_endpoint; set introspect to false")
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.IntrospectionEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("its introspection_endpoint is no url")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(i.settings.ClientID), url.QueryEscape(i.settings.ClientSecret)) // RFC 6749, section 2.3.1
	body, err := send(oauth.Unredirected(i.client), r, maxTokenReply)
	switch status, _ := errors.AsType[statusError](err); {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, fmt.Errorf("it refuses the router's clientId and clientSecret (status %d); correct them", status)
	case err != nil:
		return nil, fmt.Errorf("its introspection endpoint: %w", err)
	}
	claims, err := parseClaims(body)
	if refusal, ok := errors.AsType[*clientauth.Refusal](err); ok {
		return nil, errors.New("the answer of its introspection endpoint can't be used: " + refusal.Reason)
	}
	if active := string(claims["active"]); active != "true" && active != "false" {
		return nil, errors.New("the answer of its introspection endpoint does not say whether the token is active")
	}
	return claims, nil
}

// judge returns the token if the issuer's answer makes it valid.
func (i *issuer) judge(claims map[string]json.RawMessage) (*verified, error) {
	if string(claims["active"]) != "true" {
		return nil, invalid("its issuer says that it is not active")
	}
	var id, kind string
	if raw := claims["iss"]; !isNull(raw) && (json.Unmarshal(raw, &id) != nil || id != i.settings.URL) {
		return nil, invalid("it is of another issuer than the one that knows it")
	}
	if raw := claims["token_type"]; !isNull(raw) && (json.Unmarshal(raw, &kind) != nil || !strings.EqualFold(kind, "Bearer")) {
		return nil, invalid("it is no bearer token (token_type)")
	}
	return newVerified(i, claims, false)
}
