package clusternode_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A test binary with this variable is a router that holds the lock of the key file until its input ends.
const holder = "TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(holder); path != "" {
		id, err := clusternode.OpenIdentity(path)
		if err == nil {
			_, err = id.TryShare()
		}
		fmt.Println("held", err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // without release
	}
	os.Exit(m.Run())
}

func open(t *testing.T, path string) *clusternode.Identity {
	t.Helper()
	id, err := clusternode.OpenIdentity(path)
	expect.OK(t, err)
	return id
}

func TestOpenMakesOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metarouter", "node.nk")
	keys := make([]string, 20)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			if id, err := clusternode.OpenIdentity(path); err != nil {
				t.Error(err)
			} else {
				keys[i] = id.Key()
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		if key != keys[0] || !nkeys.IsValidPublicUserKey(key) {
			t.Fatalf("the keys are %q", keys)
		}
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "tmp-*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
	id := open(t, path)
	signature, err := id.Sign([]byte("x"))
	public, _ := nkeys.FromPublicKey(id.Key())
	if err != nil || public.Verify([]byte("x"), signature) != nil || public.Verify([]byte("y"), signature) == nil {
		t.Error("the signature is wrong")
	}
	// NATS's own package reads the file too: it can log in with it.
	text, _ := os.ReadFile(path)
	pair, err := nkeys.ParseDecoratedNKey(text)
	expect.OK(t, err)
	if public, err := pair.PublicKey(); err != nil || public != id.Key() {
		t.Error(public, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	account, err := nkeys.CreateAccount()
	expect.OK(t, err)
	other, _ := account.Seed()
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"empty":     {"", 0o600, "begins with SU"},
		"text":      {"SUSECRET", 0o600, "begins with SU"},
		"account":   {string(other), 0o600, "begins with SU"},
		"too large": {strings.Repeat("S", 1<<20), 0o600, "larger than"},
		"readable":  {"", 0o640, "chmod 600"},
		"writable":  {"", 0o602, "chmod"},
	} {
		if runtime.GOOS == "windows" && test.mode != 0o600 {
			continue
		}
		path := filepath.Join(t.TempDir(), "node.nk")
		expect.OK(t, os.WriteFile(path, []byte(test.text), 0o600))
		expect.OK(t, os.Chmod(path, test.mode))
		_, err := clusternode.OpenIdentity(path)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error is %v, want %q", name, err, test.want)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error shows the text: %v", name, err)
		}
	}
	if _, err := clusternode.OpenIdentity(t.TempDir()); err == nil {
		t.Error("a folder is a key file")
	}
}

// One router of a key shares. When it ends, another can.
func TestTryShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.nk")
	id := open(t, path)
	release, err := id.TryShare()
	if err != nil || release == nil {
		t.Fatal("the lock is not free", err)
	}
	if again, err := open(t, path).TryShare(); again != nil || err != nil {
		t.Error("the lock is taken twice", err)
	}
	release()

	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holder+"="+path)
	in, _ := other.StdinPipe()
	out, _ := other.StdoutPipe()
	expect.OK(t, other.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held <nil>\n" {
		t.Errorf("the other process says %q, %v", line, err)
	}
	if release, err := id.TryShare(); release != nil || err != nil {
		t.Error("the lock of another process is taken", err)
	}
	in.Close()
	expect.OK(t, other.Wait())
	if release, err := id.TryShare(); release == nil || err != nil {
		t.Error("the lock of a process that has ended is kept", err)
	} else {
		release()
	}
}

func TestFingerprint(t *testing.T) {
	expect.Equal(t, clusternode.Fingerprint("UABCDEFGHIJKLMNOPQRSTUVW"), "UABCDEFG…PQRSTUVW")
}
