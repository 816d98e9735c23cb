package oauth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestStartDevice(t *testing.T) {
	const usual = `"device_code": "D", "user_code": "WDJB-MJHT"`
	for name, test := range map[string]struct {
		answer   string
		life     time.Duration
		interval time.Duration
		complete string
		err      string
	}{
		"usual":              {`{` + usual + `, "verification_uri": "https://as.example/d", "verification_uri_complete": "https://as.example/d?c", "expires_in": 600, "interval": 2}`, 10 * time.Minute, 2 * time.Second, "https://as.example/d?c", ""},
		"little":             {`{` + usual + `, "verification_url": "https://as.example/d"}`, deviceLife, deviceInterval, "", ""},
		"this machine":       {`{` + usual + `, "verification_uri": "http://localhost:8080/d"}`, 0, 0, "", "an address of this machine"},
		"this machine, too":  {`{` + usual + `, "verification_uri": "https://as.example/d", "verification_uri_complete": "https://LOCALHOST.:8080/d"}`, 0, 0, "", "an address of this machine"},
		"beyond all bounds":  {`{` + usual + `, "verification_uri": "https://as.example/d", "expires_in": 1e9, "interval": 1e9}`, deviceLife, maxInterval, "", ""},
		"below all bounds":   {`{` + usual + `, "verification_uri": "https://as.example/d", "expires_in": -1, "interval": 0.001}`, deviceLife, minInterval, "", ""},
		"bad complete URL":   {`{` + usual + `, "verification_uri": "https://as.example/d", "verification_uri_complete": "javascript:alert(1)"}`, deviceLife, deviceInterval, "", ""},
		"bad URL":            {`{` + usual + `, "verification_uri": "javascript:alert(1)"}`, 0, 0, "", "not a URL with https"},
		"plain URL":          {`{` + usual + `, "verification_uri": "http://as.example/d"}`, 0, 0, "", "not a URL with https"},
		"no URL":             {`{` + usual + `}`, 0, 0, "", "no verification"},
		"no device code":     {`{"user_code": "WDJB-MJHT", "verification_uri": "https://as.example/d"}`, 0, 0, "", "device_code"},
		"no user code":       {`{"device_code": "D", "verification_uri": "https://as.example/d"}`, 0, 0, "", "user_code"},
		"a code that paints": {`{"device_code": "D", "user_code": "A\u001b[31m", "verification_uri": "https://as.example/d"}`, 0, 0, "", "user_code"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := answers("200 " + test.answer)
				d, err := g.StartDevice(t.Context(), []string{"a"})
				if test.err != "" {
					expect.Error(t, err, test.err)
					return
				}
				expect.OK(t, err)
				if form := s.asked[0].form; form.Get("client_id") != "me" || form.Get("scope") != "a" || form.Get("resource") == "" {
					t.Errorf("asked with %v", form)
				}
				if got := time.Until(d.Expires); got != test.life || d.interval != test.interval || d.CompleteURL != test.complete || d.UserCode != "WDJB-MJHT" {
					t.Errorf("expires in %v, interval %v, %+v", got, d.interval, d)
				}
			})
		})
	}
}

func TestAwaitDevice(t *testing.T) {
	const (
		pending = `400 {"error": "authorization_pending"}`
		slower  = `400 {"error": "slow_down"}`
		done    = `200 {"access_token": "A"}`
	)
	for name, test := range map[string]struct {
		answers []string
		refusal string
		at      []int // seconds
	}{
		"done":          {answers: []string{pending, pending, done}, at: []int{5, 10, 15}},
		"slower":        {answers: []string{slower, pending, slower, done}, at: []int{5, 15, 25, 40}},
		"down":          {answers: []string{"", `503 `, pending, done}, at: []int{5, 15, 35, 55}},
		"refused":       {answers: []string{pending, `400 {"error": "access_denied"}`}, refusal: "access_denied", at: []int{5, 10}},
		"expired there": {answers: []string{`400 {"error": "expired_token"}`}, refusal: "expired_token", at: []int{5}},
		"expired here":  {answers: []string{slower, slower, slower, slower, slower, slower, slower, pending}, refusal: "expired_token", at: []int{5, 15, 30, 50, 75, 105, 120}},
		"never there":   {answers: []string{""}, refusal: "expired_token", at: []int{5, 15, 35, 75, 120}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := answers(test.answers...)
				d := &Device{code: "D", interval: 5 * time.Second, Expires: time.Now().Add(2 * time.Minute)}
				token, err := g.AwaitDevice(t.Context(), d, []string{"a"})
				refusal, refused := errors.AsType[*Refusal](err)
				if test.refusal != "" && (!refused || refusal.Code != test.refusal) || test.refusal == "" && (err != nil || token.Access != "A") {
					t.Errorf("error %v, want %q", err, test.refusal)
				}
				var at []int
				for _, after := range s.at {
					at = append(at, int(after/time.Second))
				}
				expect.List(t, at, test.at, "asked at")
				if form := s.asked[0].form; form.Get("device_code") != "D" || form.Get("grant_type") != deviceGrant || form.Get("client_id") != "me" {
					t.Errorf("asked with %v", form)
				}
			})
		})
	}
}

func TestAwaitDeviceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := answers(`400 {"error": "authorization_pending"}`)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		_, err := g.AwaitDevice(ctx, &Device{interval: 5 * time.Second, Expires: time.Now().Add(time.Hour)}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(s.at) != 2 {
			t.Errorf("error %v after %d requests", err, len(s.at))
		}
	})
}
