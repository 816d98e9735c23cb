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

// StartIssuer starts an issuer whose access tokens live that long, in whole seconds. It ends with
// the test.
func StartIssuer(t testing.TB, life time.Duration) *Issuer {
	t.Helper()
	dir := filepath.Dir(modules(t, "test/external/testdata/oidc"))
	cmd := exec.Command(Node22(t), filepath.Join(dir, "issuer.mjs"), fmt.Sprint(int(life.Seconds())))
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(stderr.Name())
		t.Fatalf("the issuer does not start: %v\n%s", err, text)
	}
	return &Issuer{strings.TrimSpace(line)}
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
