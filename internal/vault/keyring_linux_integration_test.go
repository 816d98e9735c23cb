//go:build linux

package vault

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The key is kept in a real Secret Service, and other processes find it there.
func TestSecretService(t *testing.T) {
	layer.Integration(t)
	for _, program := range []string{"dbus-run-session", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			if layer.Strict() {
				t.Fatalf("%v; install the packages dbus and gnome-keyring", err)
			}
			t.Skipf("%v (Debian: apt install dbus gnome-keyring)", err)
		}
	}
	home, folder := t.TempDir(), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dbus-run-session", "--", "sh", "-c", `
printf password | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null 2>&1 &
daemon=$!
for i in $(seq 60); do
	dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets | grep -q true && break
	sleep 0.5
done
"$0" set && "$0" get
status=$?
kill $daemon
wait $daemon
exit $status`, os.Args[0])
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + home, "XDG_DATA_HOME=" + home, "LANG=C", "VAULT_TEST_SERVICE=" + folder}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "got hunter2") {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(New(folder).path(".key")); err == nil {
		t.Error("the key is in a file too")
	}
	_, err = New(folder).Get(t.Context(), "A")
	expect.Error(t, err, "keyring of a desktop", "outside of the session")
}

// useService is the part of [TestSecretService] inside the session of the bus.
func useService(folder, does string) error {
	v := with(folder, system{})
	if does == "set" {
		inFile, err := v.Set(context.Background(), "A", "hunter2")
		if err == nil && inFile {
			err = fmt.Errorf("the key is not in the keyring: %w", v.keyring.Set("probe", "x"))
		}
		return err
	}
	value, err := v.Get(context.Background(), "A")
	fmt.Println("got", value)
	return err
}

// A bus that is not there, or never answers, costs no more than the deadline.
func TestNoSecretService(t *testing.T) {
	layer.Integration(t)
	t.Run("broken", func(t *testing.T) {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
		if inFile, err := with(t.TempDir(), system{}).Set(t.Context(), "A", "one"); err != nil || !inFile {
			t.Errorf("%v, %v", inFile, err)
		}
	})
	t.Run("silent", func(t *testing.T) {
		address := filepath.Join(t.TempDir(), "bus")
		l, err := net.Listen("unix", address)
		expect.OK(t, err)
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
			}
		})
		t.Cleanup(accepting.Wait)
		t.Cleanup(func() { l.Close() })
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+address)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		folder := t.TempDir()
		v := with(folder, system{})
		_, err = v.await(ctx, "set", "x", func() (string, error) { return "", v.keyring.Set("x", "y") })
		expect.Equal(t, err, errNoAnswer)
	})
}
