package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/nats-io/nkeys"
)

// pair returns a connection of the dialer, and the other end.
func pair(t *testing.T) (near *conn, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	d := &dialer{ctx: t.Context()}
	c, err := d.Dial("tcp", l.Addr().String())
	expect.OK(t, err)
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close(); d.close() })
	return c.(*conn), far
}

// Bytes that the network does not take at once are written in order, and Write does not wait for that.
func TestWriteDoesNotWait(t *testing.T) {
	near, far := pair(t)
	var want bytes.Buffer
	for i := range 200 {
		b := bytes.Repeat([]byte{byte(i)}, 100_000+i)
		want.Write(b)
		if n, err := near.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
	}
	far.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the bytes differ, %v", err)
	}
	near.Write([]byte("last"))
	if _, err := io.ReadFull(far, got[:4]); err != nil || string(got[:4]) != "last" {
		t.Errorf("the last bytes are %q, %v", got[:4], err)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	near, _ := pair(t)
	b := make([]byte, 1<<20)
	for range 2 * maxBacklog / len(b) {
		if _, err := near.Write(b); err != nil {
			if !errors.Is(err, errBacklog) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the backlog has no bound")
}

// A dialer closes a connection that nats.go has forgotten.
func TestDialerClosesTheLast(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	d := &dialer{ctx: t.Context()}
	defer d.close()
	first, err := d.Dial("tcp", l.Addr().String())
	expect.OK(t, err)
	_, err = d.Dial("tcp", l.Addr().String())
	expect.OK(t, err)
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
		expect.Equal(t, older(version, "v2.11"), want, "%q is older", version)
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
