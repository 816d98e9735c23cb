package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	deviceLife     = 15 * time.Minute // at most, and if the issuer does not say
	deviceInterval = 5 * time.Second  // if the issuer does not say
	slowDown       = 5 * time.Second
	maxInterval    = time.Minute
	minInterval    = time.Second
	maxUserCode    = 64 // characters
)

// A Device is a login that a person completes on any device.
type Device struct {
	UserCode    string
	URL         string // where a person enters the code
	CompleteURL string // the same with the code in it; "" if the issuer has no such page
	Expires     time.Time
	code        string
	interval    time.Duration
}

// StartDevice begins a login on another device (RFC 8628). It expires in at most 15 minutes.
func (g *Grantor) StartDevice(ctx context.Context, scopes []string) (*Device, error) {
	now := time.Now().Round(0)
	r, err := g.form(ctx, "device authorization", g.Issuer.DeviceEndpoint, g.asking(url.Values{}, scopes))
	if err != nil {
		return nil, err
	}
	d, err := readDevice(r, now)
	if err == nil && leadsHere(d.URL, d.CompleteURL) && !leadsHere(g.Issuer.DeviceEndpoint) {
		return nil, errors.New("the issuer sends the person to an address of this machine, where it is not itself")
	}
	return d, err
}

// leadsHere reports whether one of the URLs is of this machine.
func leadsHere(all ...string) bool {
	return slices.ContainsFunc(all, func(raw string) bool {
		u, err := url.Parse(raw)
		if err != nil {
			return false
		}
		a, _ := literalArea(u.Hostname())
		return a == loopback
	})
}

func readDevice(r reply, at time.Time) (*Device, error) {
	d := &Device{
		UserCode:    r.text("user_code"),
		URL:         cmp.Or(r.text("verification_uri"), r.text("verification_url")), // Google's name for it
		CompleteURL: r.text("verification_uri_complete"),
		Expires:     at.Add(deviceLife),
		code:        r.text("device_code"),
		interval:    deviceInterval,
	}
	switch {
	case d.code == "" || !isVisible(d.code, ' '):
		return nil, errors.New("the issuer's answer has no device_code that can be used")
	case d.UserCode == "" || len(d.UserCode) > maxUserCode || d.UserCode != oneLine(d.UserCode):
		return nil, errors.New("the issuer's answer has no user_code that a person can read")
	}
	if err := checkEndpoint("verification", d.URL); err != nil {
		return nil, err
	}
	if d.CompleteURL != "" && checkEndpoint("verification", d.CompleteURL) != nil {
		d.CompleteURL = ""
	}
	if life := secondsOf(r["expires_in"]); life > 0 && life < deviceLife {
		d.Expires = at.Add(life)
	}
	if interval := secondsOf(r["interval"]); interval > 0 {
		d.interval = min(max(interval, minInterval), maxInterval)
	}
	return d, nil
}

// AwaitDevice waits until the person has completed the login, refused it or let it expire. The
// last two are a [*Refusal] with the code access_denied or expired_token. An issuer that does not
// answer is asked again, at longer intervals.
func (g *Grantor) AwaitDevice(ctx context.Context, d *Device, scopes []string) (Token, error) {
	interval := d.interval
	var failed error
	for {
		left := time.Until(d.Expires) // by the wall clock, which goes on while the machine sleeps
		if left <= 0 {
			refusal := &Refusal{Code: "expired_token", Description: "nobody has entered the code in time"}
			if failed != nil {
				return Token{}, fmt.Errorf("%w; the issuer could not be asked at last: %w", refusal, failed)
			}
			return Token{}, refusal
		}
		if signal.Within(ctx.Done(), min(interval, left)) {
			return Token{}, ctx.Err()
		}
		t, err := g.token(ctx, url.Values{"grant_type": {deviceGrant}, "device_code": {d.code}}, scopes)
		refusal, refused := errors.AsType[*Refusal](err)
		switch {
		case err == nil:
			return t, nil
		case ctx.Err() != nil:
			return Token{}, ctx.Err()
		case !refused:
			failed, interval = err, min(2*interval, maxInterval)
		case refusal.Code == "authorization_pending":
			failed = nil
		case refusal.Code == "slow_down":
			failed, interval = nil, min(interval+slowDown, maxInterval)
		default:
			return Token{}, err
		}
	}
}
