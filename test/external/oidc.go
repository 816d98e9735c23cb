package external

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An Issuer is npm's oidc-provider, locked in testdata/oidc: clients can register themselves,
// tokens are for one resource, refresh tokens work once, and a device can log in. Any name and
// password log in, on its own pages.
type Issuer struct{ URL string }

// IssuerOptions are what an issuer issues.
type IssuerOptions struct {
	Life      time.Duration       // of access tokens, in whole seconds
	Scopes    []string            // of access tokens; default tools:call and tools:list
	Resources string              // what URLs of resources begin with; it refuses to issue tokens for others
	Groups    map[string][]string // by user; the claim "groups" of access tokens
	JWT       bool                // access tokens are JWTs
}

// StartIssuer starts an issuer of opaque access tokens that live that long, in whole seconds. It
// ends with the test.
func StartIssuer(t testing.TB, life time.Duration) *Issuer {
	t.Helper()
	return StartIssuerWith(t, IssuerOptions{Life: life})
}

// StartIssuerWith starts an issuer with options. It ends with the test.
func StartIssuerWith(t testing.TB, o IssuerOptions) *Issuer {
	t.Helper()
	dir := filepath.Dir(modules(t, "test/external/testdata/oidc"))
	cmd := exec.Command(Node22(t), filepath.Join(dir, "issuer.mjs"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "issuer"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() // the issuer ends with its stdin
	})
	deadline := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer deadline.Stop()
	line, err := json.Marshal(o.encode())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = in.Write(append(line, '\n')); err == nil {
		line, err = bufio.NewReader(out).ReadBytes('\n')
	}
	if err != nil {
		text, _ := os.ReadFile(stderr.Name())
		t.Fatalf("the issuer does not start: %v\n%s", err, text)
	}
	return &Issuer{URL: strings.TrimSpace(string(line))}
}

// encode returns the options as issuer.mjs reads them.
func (o IssuerOptions) encode() map[string]any {
	with := map[string]any{"life": int(o.Life.Seconds()), "resources": o.Resources}
	if o.Scopes != nil {
		with["scopes"] = o.Scopes
	}
	if o.Groups != nil {
		with["groups"] = o.Groups
	}
	if o.JWT {
		with["format"] = "jwt"
	}
	return with
}

// Accepts reports whether the issuer vouches for the token, for this resource.
func (i *Issuer) Accepts(token, resource string) (bool, error) {
	form := url.Values{"token": {token}, "client_id": {"resource-server"}, "client_secret": {"resource-secret"}}
	c := http.Client{Timeout: 10 * time.Second}
	resp, err := c.PostForm(i.URL+"/token/introspection", form)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the issuer answers %s", resp.Status)
	}
	var about struct {
		Active   bool
		Audience audience `json:"aud"`
	}
	err = json.NewDecoder(resp.Body).Decode(&about)
	return about.Active && slices.Contains(about.Audience, resource), err
}

// An audience is a string or several.
type audience []string

func (a *audience) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(a))
	}
	*a = make([]string, 1)
	return json.Unmarshal(text, &(*a)[0])
}
