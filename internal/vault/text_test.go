package vault

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// appending returns a change that appends to the text.
func appending(more string) func(string) (string, error) {
	return func(old string) (string, error) { return old + more, nil }
}

// TestLoginsAreNoSecrets checks that the two files of a folder have nothing to do with each other.
func TestLoginsAreNoSecrets(t *testing.T) {
	folder := t.TempDir()
	secrets, logins := New(folder), Logins(folder)
	if text, err := logins.Get(t.Context()); text != "" || err != nil {
		t.Fatalf("before the first: %q, %v", text, err)
	}
	before, err := logins.Stamp()
	expect.OK(t, err)
	expect.OK(t, logins.Edit(t.Context(), appending("https://server.example")))
	if names, err := secrets.Names(); len(names) != 0 || err != nil {
		t.Errorf("the names of secrets: %q, %v", names, err)
	}
	if _, err := secrets.Set(t.Context(), "A", "one"); err != nil {
		t.Fatal(err)
	}
	stamp, err := logins.Stamp()
	if err != nil || stamp.Same(before) {
		t.Errorf("the stamp is %v, %v", stamp, err)
	}
	expect.OK(t, logins.Edit(t.Context(), appending(" more")))
	if now, err := logins.Stamp(); err != nil || now.Same(stamp) {
		t.Errorf("after a change the stamp is %v, %v", now, err)
	}
	stamp, err = logins.Stamp()
	expect.OK(t, err)
	file, other := filepath.Join(folder, "logins.enc"), filepath.Join(folder, "other")
	same, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(other, same, 0o600))
	expect.OK(t, os.Chtimes(other, time.Time{}, stamp.info.ModTime()))
	expect.OK(t, os.Rename(other, file))
	if now, err := logins.Stamp(); runtime.GOOS != "windows" && (err != nil || now.Same(stamp)) {
		t.Errorf("after another file of the same size and time took its place, the stamp is %v, %v", now, err)
	}
	if text, err := Logins(folder).Get(t.Context()); text != "https://server.example more" || err != nil {
		t.Errorf("the text is %q, %v", text, err)
	}
	if value, err := New(folder).Get(t.Context(), "A"); value != "one" || err != nil {
		t.Errorf("the secret is %q, %v", value, err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "logins.enc"))
	if err != nil || !strings.HasPrefix(string(data), "metarouter-logins 1\n{\"key\":\"") || !strings.Contains(string(data), `"names":["all"]`) {
		t.Errorf("the file begins with %.100q, %v", data, err)
	}
	if logins.KeyFile() != filepath.Join(folder, "logins.key") || secrets.KeyFile() != filepath.Join(folder, "secrets.key") {
		t.Errorf("the keys are in %q and %q", logins.KeyFile(), secrets.KeyFile())
	}
}

func TestTextStays(t *testing.T) {
	folder := t.TempDir()
	logins := Logins(folder)
	expect.OK(t, logins.Edit(t.Context(), appending("text")))
	stop := errors.New("stop")
	if err := logins.Edit(t.Context(), func(string) (string, error) { return "", stop }); !errors.Is(err, stop) {
		t.Errorf("an edit that fails: %v", err)
	}
	if text, err := logins.Get(t.Context()); text != "text" || err != nil {
		t.Errorf("after it the text is %q, %v", text, err)
	}
	key := filepath.Join(folder, "logins.key")
	expect.OK(t, os.Remove(key))
	path := filepath.Join(folder, "logins.enc")
	before, _ := os.ReadFile(path)
	other := Logins(folder)
	if _, err := other.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "log in again") || strings.Contains(err.Error(), "secret") {
		t.Errorf("without the key: %v", err)
	}
	if err := other.Edit(t.Context(), appending("more")); err == nil {
		t.Error("an edit without the key succeeds")
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the file has changed")
	}
}
