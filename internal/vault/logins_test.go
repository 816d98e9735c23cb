package vault

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// setting returns a change that sets a value.
func setting(name, value string) func(map[string]string) error {
	return func(values map[string]string) error { values[name] = value; return nil }
}

// TestLoginsAreNoSecrets checks that the two files of a folder have nothing to do with each other.
func TestLoginsAreNoSecrets(t *testing.T) {
	folder := t.TempDir()
	secrets, logins := New(folder), Logins(folder)
	if info, err := logins.Stat(); info != nil || err != nil {
		t.Fatalf("before the first: %v, %v", info, err)
	}
	_, err := logins.Edit(t.Context(), setting("all", "https://server.example"))
	expect.OK(t, err)
	if names, err := secrets.Names(); len(names) != 0 || err != nil {
		t.Errorf("the names of secrets: %q, %v", names, err)
	}
	mustSet(t, secrets, "A", "one")
	if value, err := Logins(folder).Get(t.Context(), "all"); value != "https://server.example" || err != nil {
		t.Errorf("the value is %q, %v", value, err)
	}
	if value, err := New(folder).Get(t.Context(), "A"); value != "one" || err != nil {
		t.Errorf("the secret is %q, %v", value, err)
	}
	data, err := os.ReadFile(logins.path(".enc"))
	if err != nil || !strings.HasPrefix(string(data), "metarouter-logins 1\n{\"key\":\"") || !strings.Contains(string(data), `"names":["all"]`) {
		t.Errorf("the file begins with %.100q, %v", data, err)
	}
	if logins.KeyFile() != logins.path(".key") || secrets.KeyFile() != secrets.path(".key") {
		t.Errorf("the keys are in %q and %q", logins.KeyFile(), secrets.KeyFile())
	}
}

// TestValuesStay checks that an edit that fails changes nothing.
func TestValuesStay(t *testing.T) {
	logins := Logins(t.TempDir())
	_, err := logins.Edit(t.Context(), setting("all", "text"))
	expect.OK(t, err)
	stop := errors.New("stop")
	fails := func(values map[string]string) error { values["all"] = ""; return stop }
	if _, err := logins.Edit(t.Context(), fails); !errors.Is(err, stop) {
		t.Errorf("an edit that fails: %v", err)
	}
	if text, err := logins.Get(t.Context(), "all"); text != "text" || err != nil {
		t.Errorf("after it the value is %q, %v", text, err)
	}
	expect.OK(t, os.Remove(logins.path(".key")))
	before, _ := os.ReadFile(logins.path(".enc"))
	other := Logins(logins.folder)
	if _, err := other.Get(t.Context(), "all"); err == nil || !strings.Contains(err.Error(), "log in again") || strings.Contains(err.Error(), "secret") {
		t.Errorf("without the key: %v", err)
	}
	if _, err := other.Edit(t.Context(), setting("all", "more")); err == nil {
		t.Error("an edit without the key succeeds")
	}
	if after, _ := os.ReadFile(logins.path(".enc")); string(after) != string(before) {
		t.Error("the file has changed")
	}
}
