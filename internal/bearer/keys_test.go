package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A setup is a verifier with an issuer that has one key, and a token of it that lasts.
type setup struct {
	*idp
	v     *testVerifier
	logs  func() []string
	key   jose.JSONWebKey
	token string
}

func newSetup(t *testing.T) *setup {
	s := &setup{idp: newIDP(), key: newKey("a", jose.ES256)}
	s.keys = []jose.JSONWebKey{s.key}
	v, logs := s.verifier(t, Issuer{})
	s.v = v
	s.logs = func() (all []string) {
		synctest.Wait() // tokens are answered before the read of their keys is logged
		for _, entry := range logs.All() {
			all = append(all, entry.Message)
		}
		return all
	}
	s.token = sign(s.key, jose.ES256, nil, claims(object{"exp": time.Now().Add(200 * time.Hour).Unix()}))
	return s
}

// verify returns nil, "refused: …" or "unavailable".
func (s *setup) verify(t *testing.T, token string) string {
	t.Helper()
	_, err := s.v.Verify(t.Context(), token, resource)
	switch {
	case err == nil:
		return "valid"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	}
	return "refused: " + refusal(t, err).Reason
}

func (s *setup) want(t *testing.T, token, want string) {
	t.Helper()
	if got := s.verify(t, token); !strings.HasPrefix(got, want) {
		t.Errorf("after %v the token is %s, not %s", time.Since(epoch), got, want)
	}
}

// epoch is when the clock of synctest begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestKeysAreReadAgainInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		time.Sleep(44 * time.Second)
		s.want(t, s.token, "valid")
		synctest.Wait()
		expect.Equal(t, s.count("/keys"), 1, "reads of keys that are 44 s old")
		time.Sleep(2 * time.Second)
		hold := make(chan struct{})
		s.set(func() { s.hold = hold })
		began := time.Now()
		for range 10 {
			s.want(t, s.token, "valid") // does not wait
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a token waited %v", waited)
		}
		synctest.Wait()
		close(hold)
		synctest.Wait()
		expect.Equal(t, s.count("/keys"), 2, "reads of keys")
		expect.Equal(t, s.count("/.well-known/openid-configuration"), 1, "reads of the metadata in a minute")
		time.Sleep(5 * time.Minute)
		s.want(t, s.token, "valid")
		time.Sleep(5 * time.Minute)
		s.want(t, s.token, "valid")
		expect.Equal(t, s.count("/.well-known/openid-configuration"), 2, "reads of the metadata in 11 minutes")
	})
}

func TestIssuerDownFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.down = errors.New("no route to host")
		for range 600 { // a minute
			s.want(t, s.token, "unavailable")
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.count("/.well-known/openid-configuration") + s.count("/.well-known/oauth-authorization-server"); n > 60 {
			t.Errorf("%d requests in a minute", n)
		}
		if logs := s.logs(); len(logs) != 1 || !strings.Contains(logs[0], "the keys of the issuer can't be read") {
			t.Errorf("the log is %q", logs)
		}
		s.set(func() { s.down = nil })
		time.Sleep(retryTime)
		s.want(t, s.token, "valid")
		if logs := s.logs(); len(logs) != 2 || !strings.Contains(logs[1], "again") {
			t.Errorf("the log is %q", logs)
		}
	})
}

func TestIssuerDownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		s.set(func() { s.down = errors.New("no route to host") })
		b := newKey("b", jose.ES256)
		fromNewKey := sign(b, jose.ES256, nil, claims(object{"exp": time.Now().Add(24 * time.Hour).Unix()}))
		before := s.count("/keys")
		for n := range 3600 {
			s.want(t, s.token, "valid")
			if n > 60 {
				s.want(t, fromNewKey, "unavailable") // it may be good: no 401
			}
			time.Sleep(time.Second)
		}
		if n := s.count("/keys") - before; n > int(time.Hour/retryTime+time.Hour/unknownEvery) {
			t.Errorf("%d requests in an hour", n)
		}
		if logs := s.logs(); len(logs) != 1 || !strings.Contains(logs[0], "stay in use") {
			t.Errorf("the log is %q", logs)
		}
		s.set(func() { s.down, s.keys = nil, []jose.JSONWebKey{b} })
		for range 60 {
			s.verify(t, s.token)
			time.Sleep(time.Second)
		}
		s.want(t, s.token, "refused")
		s.want(t, fromNewKey, "valid")
		if logs := s.logs(); len(logs) != 2 || !strings.Contains(logs[1], "again") {
			t.Errorf("the log is %q", logs)
		}
	})
}

func TestKeysOfAnIssuerThatStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		s.set(func() { s.down = errors.New("no route to host") })
		time.Sleep(23 * time.Hour)
		s.want(t, s.token, "valid")
		time.Sleep(2 * time.Hour)
		s.want(t, s.token, "unavailable")
	})
}

// An issuer that takes connections but does not answer does not make each token wait.
func TestIssuerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		s.set(func() { s.hold = make(chan struct{}) })
		time.Sleep(40 * time.Second)
		var longest time.Duration
		for range 300 {
			began := time.Now()
			s.want(t, s.token, "valid")
			longest = max(longest, time.Since(began))
			time.Sleep(time.Second)
		}
		if longest > 0 {
			t.Errorf("a token waited %v", longest)
		}
		time.Sleep(time.Hour)
		began := time.Now()
		s.want(t, s.token, "valid") // waits, since a key may have been removed an hour ago
		if waited := time.Since(began); waited > requestTime {
			t.Errorf("it waited %v", waited)
		}
	})
}

// A token that waits for keys goes away with its request, and the others do not.
func TestCancelledWhileKeysAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		hold := make(chan struct{})
		s.hold = hold
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { s.want(t, s.token, "valid") })
		if _, err := s.v.Verify(ctx, s.token, resource); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		close(hold)
		wg.Wait()
		expect.Equal(t, s.count("/keys"), 1, "reads")
		cancel()
		if _, err := s.v.Verify(ctx, s.token, resource); err == nil {
			t.Error("a request that ended got an answer")
		}
	})
}

func TestCloseEndsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.hold = make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { s.want(t, s.token, "unavailable") })
		synctest.Wait()
		s.v.Close()
		wg.Wait()
		s.want(t, s.token, "unavailable")
		expect.List(t, s.logs(), nil, "the log")
	})
}

// An edit leaves issuers that stay as they are with their keys, and forgets those that were edited or removed.
func TestEditedIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		s.set(func() { s.down = errors.New("no route to host") })
		next := func(accepted ...Issuer) { s.v.accepted = accepted }
		next(Issuer{URL: "https://other.example"}, Issuer{URL: idpURL})
		fresh := sign(s.key, jose.ES256, nil, claims(nil))
		s.want(t, s.token, "valid")
		s.want(t, fresh, "valid")
		next(Issuer{URL: idpURL, Audience: "x"})
		s.want(t, fresh, "unavailable")
		next(Issuer{URL: idpURL})
		s.want(t, sign(s.key, jose.ES256, nil, claims(object{"jti": "2"})), "unavailable")
		expect.Equal(t, len(s.v.known), 1, "… issuers are known")
		next(Issuer{URL: "https://other.example"})
		s.want(t, s.token, "refused: its issuer is")
		next()
		s.want(t, s.token, "refused: its issuer is")
	})
}

func TestBadKeySets(t *testing.T) {
	tests := []struct {
		name string
		set  func(p *idp)
		want string
	}{
		{"not there", func(p *idp) { p.status["/keys"] = 404 }, "unavailable"},
		{"fails", func(p *idp) { p.status["/keys"] = 500 }, "unavailable"},
		{"too many keys", func(p *idp) {
			for range maxKeys {
				p.extra = append(p.extra, json.RawMessage(`{"kty":"XX"}`))
			}
		}, "unavailable"},
		{"too long", func(p *idp) { p.extra = []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", maxAnswer) + `"`)} }, "unavailable"},
		{"names no keys", func(p *idp) { p.metadata = object{"jwks_uri": ""} }, "unavailable"},
		{"other issuer's metadata", func(p *idp) { p.metadata = object{"issuer": "https://evil.example.com"} }, "unavailable"},
		{"issuer with a slash", func(p *idp) { p.metadata = object{"issuer": idpURL + "/"} }, "unavailable"},
		{"empty", func(p *idp) { p.keys = nil }, "refused: no key"},
		{"more that are of no use", func(p *idp) {
			p.extra = []json.RawMessage{[]byte(`7`), []byte(`{"kty":"oct","k":"AAAA","kid":"a"}`), []byte(`{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}`), []byte(strings.Repeat("[", 50) + strings.Repeat("]", 50))}
		}, "valid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSetup(t)
			tt.set(s.idp)
			s.want(t, s.token, tt.want)
		})
	}
}

func TestParseKey(t *testing.T) {
	ec := newKey("a", jose.ES256)
	public := func(k jose.JSONWebKey) jose.JSONWebKey { return k.Public() }
	with := func(k jose.JSONWebKey, changes object) string {
		data, err := k.MarshalJSON()
		expect.OK(t, err)
		var members object
		json.Unmarshal(data, &members)
		for name, value := range changes {
			members[name] = value
		}
		return payload(members)
	}
	tests := []struct {
		name, key string
		ok        bool
	}{
		{"plain", with(public(ec), nil), true},
		{"use sig", with(public(ec), object{"use": "sig"}), true},
		{"use enc", with(public(ec), object{"use": "enc"}), false},
		{"verifies", with(public(ec), object{"key_ops": []string{"verify"}}), true},
		{"signs only", with(public(ec), object{"key_ops": []string{"sign"}}), false},
		{"no operation", with(public(ec), object{"key_ops": []string{}}), false},
		{"private", with(ec, nil), false},
		{"secret", `{"kty":"oct","k":"c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}`, false},
		{"short RSA", with(public(weakKey()), nil), false},
		{"RSA", with(public(newKey("r", jose.RS256)), nil), true},
		{"RSA with a small exponent", with(public(newKey("r", jose.RS256)), object{"e": "Ag"}), false},
	}
	for _, tt := range tests {
		if _, ok := parseKey(json.RawMessage(tt.key)); ok != tt.ok {
			t.Errorf("%s: %v", tt.name, ok)
		}
	}
}

// The default client reaches an issuer on this machine, and no keys at an address that no issuer has.
func TestDefaultClient(t *testing.T) {
	k := newKey("a", jose.ES256)
	p := newIDP()
	p.keys = []jose.JSONWebKey{k}
	site := httptest.NewServer(http.HandlerFunc(p.serve))
	defer site.Close()
	p.url = site.URL
	for name, tt := range map[string]struct {
		keysURL  string
		metadata object
		ok       bool
	}{
		"by metadata":                 {"", nil, true},
		"configured":                  {site.URL + "/keys", nil, true},
		"address of clouds' metadata": {"", object{"jwks_uri": "http://169.254.169.254/keys"}, false},
		"not https":                   {"", object{"jwks_uri": "http://keys.example.com/keys"}, false},
		"configured, not https":       {"http://keys.example.com/keys", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p.set(func() { p.metadata = tt.metadata })
			v := New(Options{Log: zap.NewNop()})
			defer v.Close()
			_, err := v.Verify(t.Context(), []Issuer{{URL: site.URL, KeysURL: tt.keysURL}}, sign(k, jose.ES256, nil, claims(object{"iss": site.URL})), resource)
			if (err == nil) != tt.ok {
				t.Error(err)
			}
		})
	}
}
