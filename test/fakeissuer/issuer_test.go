package fakeissuer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// post sends a form to the issuer and returns the answer.
func post(t *testing.T, address string, form url.Values) map[string]any {
	t.Helper()
	resp, err := http.PostForm(address, form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func get(t *testing.T, address, token string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func TestLogin(t *testing.T) {
	i := New(t, Options{Rotate: true, Clients: map[string]string{"me": ""}})
	r := i.Protect(t, Protection{})
	if resp := get(t, r.URL, ""); resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
		t.Fatalf("without a token: %s", resp.Status)
	}
	verifier := rand.Text() + rand.Text()
	back, err := Redirected(t.Context(), i.URL+"/authorize?"+url.Values{
		"client_id": {"me"}, "redirect_uri": {"http://127.0.0.1:1/callback"}, "response_type": {"code"}, "state": {"s"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}, "resource": {r.URL},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	if q := to.Query(); q.Get("state") != "s" || q.Get("iss") != i.URL {
		t.Fatalf("redirected to %s", back)
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"me"}, "redirect_uri": {"http://127.0.0.1:1/callback"},
		"code": {to.Query().Get("code")}, "code_verifier": {verifier}, "resource": {r.URL},
	}
	tokens := post(t, i.URL+"/token", form)
	access, _ := tokens["access_token"].(string)
	if resp := get(t, r.URL, access); resp.StatusCode == http.StatusUnauthorized {
		t.Fatalf("with the token %v: %s", tokens, resp.Status)
	}
	if again := post(t, i.URL+"/token", form); again["error"] != "invalid_grant" {
		t.Errorf("the code works twice: %v", again)
	}
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
	if n := i.Counts().Reuses; n != 1 {
		t.Errorf("%d reuses", n)
	}
	if resp := get(t, r.URL, access); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token of the family after a reuse: %s", resp.Status)
	}
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
