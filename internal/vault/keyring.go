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

// systemKeyring returns the user's keyring, nil if it is turned off or can't be reached.
func systemKeyring(getenv func(string) string) keyring {
	if getenv(KeyringVariable) != "off" && (runtime.GOOS == "darwin" || runtime.GOOS == "windows" || hasBus(getenv)) {
		return system{}
	}
	return nil
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

// await gives an access to the keyring, for the key with an id, a deadline. The library can't abort an access, so
// that one that is late goes on in its goroutine: callers wait for the same one, and its
// result serves the next caller.
func (v *Vault) await(ctx context.Context, does, id string, access func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	select {
	case result := <-v.accesses.DoChan(does+" "+id, func() (any, error) { return access() }):
		return result.Val.(string), result.Err
	case <-ctx.Done():
		return "", errNoAnswer
	}
}
