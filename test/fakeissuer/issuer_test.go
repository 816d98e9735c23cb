package fakeissuer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// post sends a form to the issuer and returns the answer.
func post(t *testing.T, address string, form url.Values) map[string]any {
	t.Helper()
	resp, err := http.PostForm(address, form)
	expect.OK(t, err)
	defer resp.Body.Close()
	var answer map[string]any
	expect.OK(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer
}

func get(t *testing.T, address, token string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	expect.OK(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	expect.OK(t, err)
	resp.Body.Close()
	return resp
}

// TestReuse checks that a strict issuer revokes a family, and that a grace prevents it.
func TestReuse(t *testing.T) {
	i := New(t, Options{Rotate: true, Grace: time.Hour, Clients: map[string]string{"me": ""}})
	r := i.Protect(t, Protection{})
	access, old, _ := i.Issue("me", r.URL)
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"me"}, "refresh_token": {old}, "resource": {r.URL}}
	first, second := post(t, i.URL+"/token", form), post(t, i.URL+"/token", form)
	if first["refresh_token"] == nil || first["refresh_token"] != second["refresh_token"] || first["refresh_token"] == old {
		t.Fatalf("with a grace: %v, then %v", first, second)
	}
	i.Change(func(o *Options) { o.Grace = 0 })
	if third := post(t, i.URL+"/token", form); third["error"] != "invalid_grant" {
		t.Fatalf("without a grace: %v", third)
	}
	expect.Equal(t, i.Counts().Reuses, 1, "reuses")
	if resp := get(t, r.URL, access); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token of the family after a reuse: %s", resp.Status)
	}
}
