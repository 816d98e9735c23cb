package link

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/nats-io/nkeys"
)

// A dialer closes a connection that nats.go has forgotten.
func TestDialerClosesTheLast(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	d := &dialer{ctx: t.Context()}
	defer d.close()
	first, err := d.Dial("tcp", l.Addr().String())
	expect.OK(t, err)
	if _, err := d.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

// The key that logs in may be the node's, so a server gets nothing signed but nonces.
func TestSignNonce(t *testing.T) {
	key, err := nkeys.CreateUser()
	expect.OK(t, err)
	seed, _ := key.Seed()
	file := filepath.Join(t.TempDir(), "seed")
	expect.OK(t, os.WriteFile(file, seed, 0o600))
	nonce := []byte("oSDFzI-gG_W7M2U")
	if signature, err := signNonce(file, nonce); err != nil || key.Verify(nonce, signature) != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "metarouter announcement 2\n{}", "metarouter result 2\n", `{"servers"}`, "a b", strings.Repeat("a", 65)} {
		if _, err := signNonce(file, []byte(bad)); !errors.Is(err, errNonce) {
			t.Errorf("%q is signed: %v", bad, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	s := secretsOf([]string{"nats://user:pa%40ss@hub:4222", "nats://token-7@hub", "nats://hub", "nats://user:p%zz@hub"})
	text := s.clean("pa@ss pa%40ss token-7 nats://user:p%zz@hub user hub")
	expect.Equal(t, text, "xxxxx xxxxx xxxxx xxxxx user hub", "the text")
}

func TestDelayIsBounded(t *testing.T) {
	for attempt := 1; attempt < 100; attempt++ {
		if d := delay(attempt); d < firstDelay/2 || d > maxDelay {
			t.Errorf("attempt %d waits %v", attempt, d)
		}
	}
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"2.10.29": true, "1.99.0": true, "2.11.0": false, "2.12.1-beta": false, "3.0.0": false, "": false, "x.y.z": false} {
		if older(version, "v2.11") != want {
			t.Errorf("%q is older: %v", version, !want)
		}
	}
}

func TestPermission(t *testing.T) {
	l := &Link{prefix: "metarouter.office.", options: Options{Key: "UABC"}}
	for subject, want := range map[string]string{
		"publish to metarouter.office.stream.UX.R.UABC.open": "metarouter.office.stream.*.*.UABC.>",
		"subscribe to metarouter.office.stream.UABC.R.>":     "metarouter.office.stream.UABC.>",
		"subscribe to _INBOX.x.*":                            "_INBOX.>",
		"subscribe to $SRV.PING":                             "$SRV.>",
		"publish to $JS.API.INFO":                            "$JS.API.>",
		"publish to $KV.metarouter-office.UABC.R.node":       "$KV.metarouter-office.UABC.>",
		"publish to elsewhere":                               "elsewhere",
	} {
		expect.Equal(t, l.permission(subject), want, "%s", subject)
	}
}
