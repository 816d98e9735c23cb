package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/test/expect"
	zalando "github.com/zalando/go-keyring"
)

// TestMain runs this binary as another process that uses a vault, if a variable says so.
func TestMain(m *testing.M) {
	os.Setenv(KeyringVariable, "off")
	if folder := os.Getenv("VAULT_TEST_WRITER"); folder != "" {
		v := New(folder)
		for i := range 10 {
			if _, err := v.Set(context.Background(), fmt.Sprintf("%s-%d", os.Getenv("VAULT_TEST_NAME"), i), "value"); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	if folder := os.Getenv("VAULT_TEST_SERVICE"); folder != "" {
		if err := useService(folder, os.Args[1]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A memory is a keyring in memory.
type memory struct {
	mu      sync.Mutex // guards texts
	texts   map[string]string
	blocked chan struct{} // accesses wait until it is closed; nil for not at all
	begun   atomic.Int32  // accesses
}

func (m *memory) wait() {
	m.begun.Add(1)
	if m.blocked != nil {
		<-m.blocked
	}
}

func (m *memory) Get(account string) (string, error) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.texts[account]
	if !ok {
		return "", zalando.ErrNotFound
	}
	return text, nil
}

func (m *memory) Set(account, text string) error {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil {
		m.texts = make(map[string]string)
	}
	m.texts[account] = text
	return nil
}

func with(folder string, k keyring) *Vault {
	v := New(folder)
	v.keyring = k
	return v
}

func mustSet(t *testing.T, v *Vault, name, value string) {
	t.Helper()
	_, err := v.Set(t.Context(), name, value)
	expect.OK(t, err)
}

func TestVault(t *testing.T) {
	for _, place := range []string{"keyring", "file"} {
		t.Run(place, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "config", "metarouter")
			ring := new(memory)
			open := func() *Vault { return with(folder, ring) }
			if place == "file" {
				open = func() *Vault { return New(folder) }
			}
			if names, err := open().Names(); err != nil || len(names) > 0 {
				t.Errorf("before: %v, %v", names, err)
			}
			_, err := open().Get(t.Context(), "A")
			if missing, ok := errors.AsType[*MissingError](err); !ok || missing.Name != "A" {
				t.Errorf("before: %v", err)
			}
			inFile, err := open().Set(t.Context(), "B", "two")
			if err != nil || inFile != (place == "file") || (open().KeyFile() != "") != inFile {
				t.Errorf("in a file: %v, %q, %v", inFile, open().KeyFile(), err)
			}
			if inFile, err := open().Set(t.Context(), "A", "hunter1"); err != nil || inFile {
				t.Errorf("the second: %v, %v", inFile, err)
			}
			before, _ := os.ReadFile(New(folder).path(".enc"))
			mustSet(t, open(), "A", "hunter1")
			after, _ := os.ReadFile(New(folder).path(".enc"))
			if bytes.Equal(before, after) {
				t.Error("the nonce is the same")
			}
			if bytes.Contains(after, []byte("hunter1")) {
				t.Error("the value can be read")
			}
			if names, err := open().Names(); err != nil || !reflect.DeepEqual(names, []string{"A", "B"}) {
				t.Errorf("names %v, %v", names, err)
			}
			if value, err := open().Get(t.Context(), "A"); err != nil || value != "hunter1" {
				t.Errorf("%q, %v", value, err)
			}
			expect.OK(t, open().Remove(t.Context(), "A"))
			if err := open().Remove(t.Context(), "A"); !errors.As(err, new(*MissingError)) {
				t.Errorf("again: %v", err)
			}
			if value, err := open().Get(t.Context(), "B"); err != nil || value != "two" {
				t.Errorf("%q, %v", value, err)
			}
			want := 0
			if place == "keyring" {
				want = 1
			}
			expect.Equal(t, len(ring.texts), want, "the keyring has … keys")
		})
	}
}

func TestRefusedValues(t *testing.T) {
	v := New(t.TempDir())
	for _, c := range []struct{ name, value, says string }{
		{"", "x", "can't be the name"}, {"a b", "x", "can't be the name"}, {"-a", "x", "can't be the name"}, {strings.Repeat("a", 129), "x", "can't be the name"},
		{"A", "", "secret rm A"}, {"A", "x\x00y", "zero byte"}, {"A", strings.Repeat("hunter", MaxValue), "larger than 64 KiB"},
	} {
		if _, err := v.Set(t.Context(), c.name, c.value); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%.10q=%.10q: %v", c.name, c.value, err)
		}
	}
	if entries, _ := os.ReadDir(v.folder); len(entries) > 0 {
		t.Errorf("it wrote %v", entries)
	}
}

// Users' values leave room for the administrator's secrets, and for those of other users.
func TestUserValues(t *testing.T) {
	v := New(t.TempDir())
	full := func(name string, n int) string {
		_, err := v.Edit(t.Context(), func(values map[string]string) error {
			for i := range n {
				values[UserValue(name, fmt.Sprint(i))] = "v"
			}
			return nil
		})
		expect.OK(t, err)
		return fmt.Sprint(SetUser(t.Context(), v, "ann", "key", "v"))
	}
	expect.Contains(t, full("ann", maxOwn), "20 of a user")
	expect.OK(t, SetUser(t.Context(), v, "ann", "0", "another"))
	expect.OK(t, SetUser(t.Context(), v, "bob", "key", "v"))
	expect.Contains(t, fmt.Sprint(SetUser(t.Context(), v, "eve", "key", strings.Repeat("v", 5<<10))), "4 KiB")
	expect.Contains(t, full("the others", maxNames/2), "500 of all users")
	expect.OK(t, SetUser(t.Context(), v, "", "key", "v"), "the local user's")
	_, err := v.Set(t.Context(), "TOKEN", "v")
	expect.OK(t, err, "the administrator's")
}

// Damaged files, other keys and other versions are told apart, and nothing is overwritten.
func TestDamage(t *testing.T) {
	folder := t.TempDir()
	mustSet(t, New(folder), "A", "one")
	path, keyPath := New(folder).path(".enc"), New(folder).path(".key")
	good, _ := os.ReadFile(path)
	goodKey, _ := os.ReadFile(keyPath)
	lines := bytes.SplitAfter(good, []byte("\n"))
	renamed := bytes.Replace(good, []byte(`"A"`), []byte(`"B"`), 1)
	other := "A" // than the first letter of the values
	if lines[2][0] == 'A' {
		other = "B"
	}
	for name, c := range map[string]struct {
		file, key string
		says      string
	}{
		"empty":     {"", string(goodKey), "damaged"},
		"truncated": {string(good[:len(good)-10]), string(goodKey), "damaged"},
		"no values": {string(lines[0]) + string(lines[1]), string(goodKey), "damaged"},
		"a bit":     {string(lines[0]) + string(lines[1]) + other + string(lines[2][1:]), string(goodKey), "damaged"},
		"a name":    {string(renamed), string(goodKey), "damaged"},
		"newer":     {"metarouter-secrets 2\n" + string(lines[1]), string(goodKey), `format "2"`},
		"not ours":  {"hello\nworld\n", string(goodKey), "damaged"},
		"other key": {string(good), New("").keyText(newKey()), "is not in"},
		"bad key":   {string(good), "zz", "key is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			expect.OK(t, errors.Join(os.WriteFile(path, []byte(c.file), 0o600), os.WriteFile(keyPath, []byte(c.key), 0o600)))
			wanted := "A"
			if name == "a name" {
				wanted = "B"
			}
			if _, err := New(folder).Get(t.Context(), wanted); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "one") {
				t.Errorf("get: %v", err)
			}
			if _, err := New(folder).Set(t.Context(), "C", "three"); err == nil {
				t.Error("set: no error")
			}
			if got, _ := os.ReadFile(path); string(got) != c.file {
				t.Error("the file was overwritten")
			}
		})
	}
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are those of Unix")
	}
	folder := t.TempDir()
	mustSet(t, New(folder), "A", "one")
	for _, name := range []string{"secrets.enc", "secrets.key", "secrets.lock"} {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		if name == "secrets.lock" {
			continue
		}
		expect.OK(t, os.Chmod(path, 0o644))
		_, err := New(folder).Get(t.Context(), "A")
		expect.Error(t, err, "chmod 600", "%s is readable by others", name)
		os.Chmod(path, 0o600)
	}
	os.Chmod(folder, 0o777)
	_, err := New(folder).Get(t.Context(), "A")
	expect.Error(t, err, "chmod go-w", "others can write to the folder")
}

// A keyring that hangs does not hang the caller, and its late answer serves the next one.
func TestKeyringHangs(t *testing.T) {
	folder := t.TempDir()
	ring := new(memory)
	mustSet(t, with(folder, ring), "A", "one")
	synctest.Test(t, func(t *testing.T) {
		ring.blocked = make(chan struct{})
		ring.begun.Store(0)
		v := with(folder, ring)
		for range 3 {
			if _, err := v.Get(t.Context(), "A"); !errors.Is(err, errNoAnswer) {
				t.Errorf("%v", err)
			}
		}
		expect.Equal(t, ring.begun.Load(), 1, "accesses are under way")
		close(ring.blocked)
		if value, err := v.Get(t.Context(), "A"); err != nil || value != "one" {
			t.Errorf("%q, %v", value, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		other := &memory{blocked: make(chan struct{})}
		if inFile, err := with(t.TempDir(), other).Set(t.Context(), "A", "one"); err != nil || !inFile {
			t.Errorf("set: %v, %v", inFile, err)
		}
		close(other.blocked)
	})
}

func TestBus(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		address, runtime string
		want             bool
	}{
		{"", "", false}, {"autolaunch:", "", false}, {"disabled:", "", false}, {"unix:path=/x", "", true}, {"", folder, false},
	} {
		getenv := func(name string) string {
			return map[string]string{"DBUS_SESSION_BUS_ADDRESS": c.address, "XDG_RUNTIME_DIR": c.runtime}[name]
		}
		expect.Equal(t, hasBus(getenv), c.want, "%v", c)
	}
	if systemKeyring(func(string) string { return "off" }) != nil {
		t.Error("it is not off")
	}
}

func FuzzParse(f *testing.F) {
	k := newKey()
	good := New("").seal(k, map[string]string{"A": "one", "B": "two"})
	f.Add(good)
	f.Add([]byte("metarouter-secrets 1\n{}\n"))
	f.Add([]byte("metarouter-secrets 1\n{\"key\":\"0123456789abcdef\",\"names\":[\"A\",\"A\"]}\nAAAA\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := New("").parse(data)
		if err != nil {
			return
		}
		for _, name := range file.header.Names {
			if !ValidName(name) {
				t.Errorf("name %q", name)
			}
		}
		if values, err := file.open(k); err == nil && !bytes.Equal(file.sealed, sealedOf(t, good)) {
			t.Errorf("forged: %v", values)
		}
	})
}

func sealedOf(t *testing.T, data []byte) []byte {
	t.Helper()
	f, err := New("").parse(data)
	expect.OK(t, err)
	return f.sealed
}
