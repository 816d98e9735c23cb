package bearer

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestValues(t *testing.T) {
	claims, err := parseClaims([]byte(`{
		"sub": "u1", "n": 12345678901234567890, "yes": true, "no": false, "null": null, "object": {"a": 1},
		"groups": ["devs", 7, true, null, {"x": 1}, ["y"]],
		"https://x.example/groups": ["ops"],
		"realm_access": {"roles": ["admin"]},
		"a.b": "whole", "a": {"b": "inner", "c": "inner"},
		"resource_access": {"my.client": {"roles": ["r"]}},
		"p.q": {"r": "outer"}, "p": {"q": {"s": "deeper"}},
		"bad": ["\ud800", "ok"], "empty": []
	}`))
	expect.OK(t, err)
	token := &Token{Claims: claims}
	tests := map[string][]string{
		"sub":                             {"u1"},
		"n":                               {"12345678901234567890"},
		"yes":                             {"true"},
		"no":                              {"false"},
		"null":                            nil,
		"object":                          nil,
		"missing":                         nil,
		"":                                nil,
		".":                               nil,
		"groups":                          {"devs", "7", "true"},
		"https://x.example/groups":        {"ops"},
		"realm_access.roles":              {"admin"},
		"realm_access":                    nil,
		"realm_access.":                   nil,
		"realm_access.roles.x":            nil,
		"a.b":                             {"whole"},
		"a.c":                             {"inner"},
		"resource_access.my.client.roles": {"r"},
		"p.q.r":                           {"outer"},
		"p.q.s":                           {"deeper"},
		"bad":                             {"ok"},
		"empty":                           nil,
	}
	for name, want := range tests {
		expect.List(t, token.Values(name), want, "%q", name)
	}
}

func TestScopes(t *testing.T) {
	tests := []struct{ claims, want string }{
		{`{}`, "[]"},
		{`{"scope": "a b  a"}`, "[a b]"},
		{`{"scope": null, "scp": "a"}`, "[a]"},
		{`{"scope": "a", "scp": ["b", "c a"]}`, "[a b c]"},
		{`{"scp": [1]}`, "error"},
		{`{"scope": {}}`, "error"},
	}
	for _, tt := range tests {
		var claims map[string]json.RawMessage
		expect.OK(t, json.Unmarshal([]byte(tt.claims), &claims))
		scopes, err := scopesOf(claims)
		got := fmt.Sprint(scopes)
		if err != nil {
			got = "error"
		}
		expect.Equal(t, got, tt.want, "%s", tt.claims)
	}
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(n int) (k [32]byte) { k[0], k[1] = byte(n), byte(n>>8); return k }
		var c cache
		check := func(n int, want bool) {
			t.Helper()
			_, ok := c.get(key(n))
			expect.Equal(t, ok, want, "it keeps %d", n)
		}
		for n := range maxKept {
			last := time.Hour
			if n%2 == 0 {
				last = time.Second
			}
			c.put(key(n), verdict{}, last)
		}
		check(0, true)
		time.Sleep(time.Second)
		check(0, false)
		c.put(key(maxKept), verdict{}, time.Hour) // in the place of those that count no more
		check(1, true)
		for n := range maxKept { // full of what counts
			c.put(key(maxKept+n), verdict{}, time.Hour)
		}
		check(1, false)
		check(2*maxKept-1, true)
	})
}

// A kept token ends with its own time, and with the time for which it may be kept.
func TestKeptTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		token := sign(s.key, "ES256", nil, claims(object{"exp": time.Now().Unix() + 10}))
		s.want(t, token, "valid")
		time.Sleep(69 * time.Second)
		s.want(t, token, "valid")
		time.Sleep(500 * time.Millisecond)
		s.want(t, token, "valid") // kept since just before
		time.Sleep(500 * time.Millisecond)
		s.want(t, token, "refused: it has expired")
	})
}

// The times of a token are the times of its claims, to the second.
func TestTimes(t *testing.T) {
	tests := []struct {
		name  string
		at    int
		valid bool
	}{
		{"exp", -59, true}, {"exp", -60, false}, {"nbf", 60, true}, {"nbf", 61, false}, {"iat", 60, true}, {"iat", 61, false},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := newSetup(t)
			token := sign(s.key, "ES256", nil, claims(object{tt.name: time.Now().Unix() + int64(tt.at)}))
			expect.Equal(t, s.verify(t, token) == "valid", tt.valid, "%s %d", tt.name, tt.at)
		})
	}
}
