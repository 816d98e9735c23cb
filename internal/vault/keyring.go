package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// systemKeyring returns the user's keyring, unless it is turned off or can't be reached.
func systemKeyring(getenv func(string) string) (keyring, bool) {
	if getenv(KeyringVariable) == "off" {
		return nil, false
	}
	switch runtime.GOOS {
	case "darwin", "windows":
		return system{}, true
	}
	return system{}, hasBus(getenv)
}

// hasBus reports whether there is a session bus to connect to. Without one, the library
// would start one, which would outlive this process.
func hasBus(getenv func(string) string) bool {
	switch address := getenv("DBUS_SESSION_BUS_ADDRESS"); {
	case address == "autolaunch:" || strings.HasPrefix(address, "disabled:"):
		return false
	case address != "":
		return true
	}
	folder := getenv("XDG_RUNTIME_DIR")
	if folder == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(folder, "bus"))
	return err == nil
}

// errNoAnswer is a keyring that hangs, or waits for the user.
var errNoAnswer = errors.New("it does not answer; unlock it and try again, or set " + KeyringVariable + "=off")

// waiting gives each access to a keyring a deadline. The library can't abort an access, so
// that one that is late goes on in its goroutine: callers wait for the same one, and its
// result serves the next caller.
type waiting struct {
	keyring keyring
	of      kind

	mu   sync.Mutex         // guards gets
	gets map[string]*access // under way, by account
}

// An access is a request to the keyring.
type access struct {
	done chan struct{} // closed when text and err are valid
	text string
	err  error
}

func (w *waiting) get(ctx context.Context, account string) (string, error) {
	w.mu.Lock()
	a, underWay := w.gets[account]
	if !underWay {
		a = &access{done: make(chan struct{})}
		if w.gets == nil {
			w.gets = make(map[string]*access)
		}
		w.gets[account] = a
		go func() {
			defer close(a.done)
			a.text, a.err = w.keyring.Get(account)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.gets, account)
		}()
	}
	w.mu.Unlock()
	return a.await(ctx, w.of)
}

func (w *waiting) set(ctx context.Context, account, text string) error {
	a := &access{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = w.keyring.Set(account, text)
	}()
	_, err := a.await(ctx, w.of)
	return err
}

func (a *access) await(ctx context.Context, of kind) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	select {
	case <-a.done:
	case <-ctx.Done():
		return "", errNoAnswer
	}
	if errors.Is(a.err, zalando.ErrNotFound) {
		return "", fmt.Errorf("the key is not there; restore it, or remove the file %s and %s", of.file(), of.again)
	}
	if a.err != nil {
		return "", fmt.Errorf("%w; unlock it and try again, or set %s=off", a.err, KeyringVariable)
	}
	return a.text, nil
}
