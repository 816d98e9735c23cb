package vault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	zalando "github.com/zalando/go-keyring"
	"golang.org/x/sync/singleflight"
)

const (
	service = "metarouter"
	// KeyringVariable turns the keyring off if it is "off".
	KeyringVariable = "METAROUTER_KEYRING"
	// keyringTime bounds an access to the keyring, unless the caller's context ends
	// before.
	keyringTime = 30 * time.Second
)

// A keyring keeps small texts by account.
type keyring interface {
	Get(account string) (string, error)
	Set(account, text string) error
}

// system is the user's keyring.
type system struct{}

func (system) Get(account string) (string, error) { return zalando.Get(service, account) }
func (system) Set(account, text string) error     { return zalando.Set(service, account, text) }

// systemKeyring returns the user's keyring, unless it is turned off or can't be reached.
func systemKeyring(getenv func(string) string) (keyring, bool) {
	if getenv(KeyringVariable) == "off" {
		return nil, false
	}
	return system{}, runtime.GOOS == "darwin" || runtime.GOOS == "windows" || hasBus(getenv)
}

// hasBus reports whether there is a session bus to connect to. Without one, the library
// would start one, which would outlive this process.
func hasBus(getenv func(string) string) bool {
	if address := getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return address != "autolaunch:" && !strings.HasPrefix(address, "disabled:")
	}
	folder := getenv("XDG_RUNTIME_DIR")
	_, err := os.Stat(filepath.Join(folder, "bus"))
	return folder != "" && err == nil
}

// errNoAnswer is a keyring that hangs, or waits for the user.
var errNoAnswer = errors.New("it does not answer")

// waiting gives each access to a keyring a deadline. The library can't abort an access, so
// that one that is late goes on in its goroutine: callers wait for the same one, and its
// result serves the next caller.
type waiting struct {
	keyring  keyring
	accesses singleflight.Group
}

func (w *waiting) get(ctx context.Context, account string) (string, error) {
	return w.await(ctx, "get "+account, func() (any, error) { return w.keyring.Get(account) })
}

// set keeps the text of a new account.
func (w *waiting) set(ctx context.Context, account, text string) error {
	_, err := w.await(ctx, "set "+account, func() (any, error) { return "", w.keyring.Set(account, text) })
	return err
}

func (w *waiting) await(ctx context.Context, name string, access func() (any, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	select {
	case result := <-w.accesses.DoChan(name, access):
		text, _ := result.Val.(string)
		return text, result.Err
	case <-ctx.Done():
		return "", errNoAnswer
	}
}
