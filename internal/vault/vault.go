// Package vault keeps secrets, and logins, in encrypted files.
//
// The file secrets.enc holds all secrets, encrypted with one key. The key is in the
// system's keyring (the Secret Service on Linux, the Keychain on macOS, the Credential
// Manager on Windows), or, where that is missing or does not answer, in the file
// secrets.key next to it. Both files have mode 0600, and are refused if another user can
// change them.
//
// Logins are in a file of their own, logins.enc, with a key of its own. The following holds for
// it, too.
//
// Names are readable without the key: they stand in the header of the file, which the
// encryption authenticates. Every access to the keyring has a deadline, since a keyring may
// show a dialog or hang. Several processes may use the same folder at once.
package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// MaxValue is the most bytes of a secret.
	MaxValue = 64 << 10
	// maxNames is how many secrets a vault has at most.
	maxNames = 1000
	maxFile  = 4 << 20 // bytes
	// maxOwn is how many values a user has, other than the local one. All users' values fill at most half of the names.
	maxOwn       = 20
	maxUserValue = 4 << 10 // bytes
)

var validName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// ValidName reports whether a secret may have the name: up to 128 letters, digits, dots,
// dashes and underscores; the first is a letter, a digit or an underscore.
func ValidName(s string) bool { return validName().MatchString(s) }

// A Vault is the store of one folder. Its methods may be called from any goroutine.
type Vault struct {
	kind
	folder   string
	keyring  keyring             // nil without a keyring
	accesses singleflight.Group  // to the keyring
	key      atomic.Pointer[key] // the last one that was used; nil before
}

// A kind is the purpose of a vault.
type kind struct {
	noun   string // in errors, such as "secrets"; also in the names of its files, and in the first line of the file
	keyTag string // that begins the key file
	again  string // advice for a lost file, in errors
}

// New returns the vault with the secrets of the folder, which need not exist. It reads nothing.
func New(folder string) *Vault {
	return &Vault{folder: folder, keyring: systemKeyring(os.Getenv), kind: kind{noun: "secrets", again: "set the secrets again"}}
}

// Logins returns the vault with the logins of the folder, as New does.
func Logins(folder string) *Vault {
	return &Vault{folder: folder, keyring: systemKeyring(os.Getenv), kind: kind{noun: "logins", keyTag: "logins ", again: "log in again"}}
}

// Own returns the vault with the user's secrets, which is next to their own configuration file.
func Own() (*Vault, error) {
	path, err := configpath.Own()
	if err != nil {
		return nil, err
	}
	return New(filepath.Dir(path)), nil
}

// path returns the path of the file with this extension.
func (v *Vault) path(extension string) string { return filepath.Join(v.folder, v.noun+extension) }

// A MissingError is a secret that was never set, or was removed.
type MissingError struct{ Name string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the secret %s is not set; run: %s", e.Name, SetCommand(e.Name))
}

// UserValue returns the name under which the value of a principal is kept, "" for the local user, and which tells nothing of the
// principal.
func UserValue(principal, name string) string {
	of := "local"
	if principal != "" {
		of = fmt.Sprintf("%.12x", sha256.Sum256([]byte("metarouter: values of "+principal)))
	}
	return "user." + of + "." + name
}

// SetCommand returns the command that sets a secret.
func SetCommand(name string) string { return "metarouter secret set " + name }

// Names returns the names of all secrets, sorted. It needs no key.
func (v *Vault) Names() ([]string, error) {
	f, err := v.read()
	if err != nil {
		return nil, err
	}
	return f.header.Names, nil
}

// Get returns the value of a secret. A [*MissingError] says that it is not set.
func (v *Vault) Get(ctx context.Context, name string) (string, error) {
	f, err := v.read()
	if err != nil {
		return "", err
	}
	if !slices.Contains(f.header.Names, name) {
		return "", &MissingError{name}
	}
	values, err := v.open(ctx, f)
	if err != nil {
		return "", err
	}
	return values[name], nil
}

// Set gives a secret a value. The first one makes the key: keptInFile reports that there is
// no keyring to keep it, so that it is in a file.
func (v *Vault) Set(ctx context.Context, name, value string) (keptInFile bool, err error) {
	if err := check(name, value); err != nil {
		return false, err
	}
	return v.Edit(ctx, func(values map[string]string) error {
		values[name] = value
		return nil
	})
}

// check returns why a secret can't have the name or the value.
func check(name, value string) error {
	switch {
	case !ValidName(name):
		return fmt.Errorf("%q can't be the name of a secret; use up to 128 letters, digits, dots, dashes and underscores", name)
	case value == "":
		return errors.New("the value is empty; to remove the secret, run: metarouter secret rm " + name)
	case len(value) > MaxValue:
		return fmt.Errorf("the value is larger than %d KiB; keep it in a file of its own and write ${file:PATH}", MaxValue>>10)
	case strings.ContainsRune(value, 0):
		return errors.New("the value has a zero byte, which no variable and no header can hold")
	}
	return nil
}

// SetUser sets a value of a principal as Set does, under its UserValue. Values of users other than the local one have bounds of
// their own, so that others' secrets fit.
func SetUser(ctx context.Context, v *Vault, principal, name, value string) error {
	name, of := UserValue(principal, name), UserValue(principal, "")
	switch err := check(name, value); {
	case err != nil:
		return err
	case principal != "" && len(value) > maxUserValue:
		return fmt.Errorf("the value is larger than %d KiB", maxUserValue>>10)
	}
	_, err := v.Edit(ctx, func(values map[string]string) error {
		values[name] = value
		own, all, size := 0, 0, 0
		for other, kept := range values {
			if strings.HasPrefix(other, of) {
				own++
			}
			if strings.HasPrefix(other, "user.") {
				all, size = all+1, size+len(other)+len(wire.Marshal(kept)) // as in the file
			}
		}
		if principal != "" && (own > maxOwn || all > maxNames/2 || size > maxFile/4) {
			return fmt.Errorf("no more values fit: there are at most %d of a user, and %d of all users with %d KiB", maxOwn, maxNames/2, maxFile>>12)
		}
		return nil
	})
	return err
}

// Remove removes a secret. A [*MissingError] says that it is not set.
func (v *Vault) Remove(ctx context.Context, name string) error {
	_, err := v.Edit(ctx, func(values map[string]string) error {
		if _, ok := values[name]; !ok {
			return &MissingError{name}
		}
		delete(values, name)
		return nil
	})
	return err
}

// KeyFile returns the path of the file that holds the key; "" if the key is in the keyring,
// or no secret was set yet.
func (v *Vault) KeyFile() string {
	f, err := v.read()
	if err != nil || f.header.Key == "" {
		return ""
	}
	path := v.path(".key")
	if k, err := v.readKey(path); err != nil || k.id() != f.header.Key {
		return ""
	}
	return path
}

// Edit changes the values and writes them, while no other process does the same. If change returns an error, or
// the file can't be read, the file stays. The first value makes the key: keptInFile reports that there is no keyring
// to keep it, so that it is in a file.
func (v *Vault) Edit(ctx context.Context, change func(map[string]string) error) (keptInFile bool, err error) {
	if err := os.MkdirAll(v.folder, 0o700); err != nil {
		return false, err
	}
	unlock, err := safefile.Lock(ctx, v.path(".lock"), safefile.LockTime, "changes the "+v.noun)
	if err != nil {
		return false, err
	}
	defer unlock()
	f, err := v.read()
	if err != nil {
		return false, err
	}
	values := make(map[string]string)
	if f.header.Key != "" {
		if values, err = v.open(ctx, f); err != nil {
			return false, err
		}
	}
	if err := change(values); err != nil {
		return false, err
	}
	if f.header.Key == "" {
		made := newKey()
		if keptInFile, err = v.keep(ctx, made); err != nil {
			return false, err
		}
		v.key.Store(made)
	}
	data := v.seal(v.key.Load(), values)
	if len(data) > maxFile || len(values) > maxNames {
		return false, fmt.Errorf("no more %s fit: there are at most %d, and %d MiB; remove some", v.noun, maxNames, maxFile>>20)
	}
	return keptInFile, safefile.Write(v.path(".enc"), data, true)
}

// Stat returns what tells whether the file has changed, nil without a file.
func (v *Vault) Stat() (fs.FileInfo, error) {
	info, err := os.Stat(v.path(".enc"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// read reads the file. Without one, there are no secrets.
func (v *Vault) read() (*file, error) {
	path := v.path(".enc")
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &file{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", v.noun, err)
	}
	f, err := v.parse(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return f, nil
}

// readPrivate reads a file that no other user can read or change.
func readPrivate(path string) ([]byte, error) {
	for _, p := range []string{filepath.Dir(path), path} {
		if err := safefile.OwnersOnly(p); err != nil {
			return nil, err
		}
	}
	if err := safefile.Unshared(path); err != nil {
		return nil, err
	}
	return safefile.Read(path, maxFile)
}

// open decrypts the file.
func (v *Vault) open(ctx context.Context, f *file) (map[string]string, error) {
	k, err := v.keyOf(ctx, f.header.Key)
	if err != nil {
		return nil, err
	}
	values, err := f.open(k)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", v.path(".enc"), err)
	}
	return values, nil
}

// keyOf returns the key with the id: the one that was used last, else from the key file, else from
// the keyring.
func (v *Vault) keyOf(ctx context.Context, id string) (*key, error) {
	if k := v.key.Load(); k != nil && k.id() == id {
		return k, nil
	}
	path := v.path(".key")
	k, err := v.readKey(path)
	switch {
	case err == nil && k.id() == id:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case v.keyring == nil:
		return nil, fmt.Errorf("the key of the %s is not in %s, and this process can't reach the keyring of a desktop; start it in the desktop's session, restore the key, or remove %s and %s",
			v.noun, path, filepath.Base(v.path(".enc")), v.again)
	default:
		text, err := v.await(ctx, "get", id, func() (string, error) { return v.keyring.Get(v.account(id)) })
		if err == nil {
			if k, err = v.parseKey(text); err == nil && k.id() != id {
				err = v.damagedKey()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("get the key of the %s from the keyring: %w; unlock it and try again, set %s=off, or remove %s and %s", v.noun, err, KeyringVariable, filepath.Base(v.path(".enc")), v.again)
		}
	}
	v.key.Store(k)
	return k, nil
}

// keep keeps a new key in the keyring, else in a file.
func (v *Vault) keep(ctx context.Context, k *key) (inFile bool, err error) {
	if v.keyring != nil {
		set := func() (string, error) { return "", v.keyring.Set(v.account(k.id()), v.keyText(k)) }
		if _, err := v.await(ctx, "set", k.id(), set); err == nil {
			return false, nil
		}
	}
	return true, safefile.Write(v.path(".key"), []byte(v.keyText(k)+"\n"), true)
}

func (v *Vault) readKey(path string) (*key, error) {
	data, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	return v.parseKey(strings.TrimSpace(string(data)))
}
