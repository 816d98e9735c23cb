package resolve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A store is a Store in memory.
type store map[string]string

func (s store) Get(_ context.Context, name string) (string, error) {
	value, ok := s[name]
	if !ok {
		return "", &vault.MissingError{Name: name}
	}
	return value, nil
}

// A shell is a Runner that prints the next of its lines.
type shell struct {
	mu    sync.Mutex // guards ran
	ran   []process.Command
	takes time.Duration
	fails string
}

func (s *shell) run(ctx context.Context, c process.Command, _ *process.Tail, _ *process.LogFile) ([]byte, string, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, c)
	return fmt.Appendf(nil, "token-%d\r\n", len(s.ran)), s.fails, nil
}

func command(line string) reference.Reference {
	return reference.Reference{Text: "${cmd:" + line + "}", Kind: reference.Command, Body: line, Dir: os.TempDir()}
}

func TestResolve(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	expect.OK(t, os.WriteFile(file, []byte("from a file\n\n"), 0o600))
	entry := config.Server{
		Args:    []string{"--key=${keyring:A}", "${keyring:OTHER}"},
		Env:     map[string]string{"TOKEN": "${keyring:A}${file:x}", "PLAIN": "x"},
		URL:     "https://h/${keyring:A}",
		Headers: map[string]string{"Authorization": "Bearer ${cmd:get}"},
		References: []reference.Reference{
			{Text: "${keyring:A}", Kind: reference.Keyring, Body: "A"},
			{Text: "${file:x}", Kind: reference.File, Body: file},
			command("get"),
		},
	}
	written := entry
	s := New(store{"A": "${file:x}", "OTHER": "never"}, new(shell).run).Server(nil, nil)
	got, err := s.Resolve(t.Context(), entry)
	expect.OK(t, err)
	want := entry
	want.Args = []string{"--key=${file:x}", "${keyring:OTHER}"} // what is no reference of the file stays, and so does a value
	want.Env = map[string]string{"TOKEN": "${file:x}from a file\n", "PLAIN": "x"}
	want.URL = "https://h/${file:x}"
	want.Headers = map[string]string{"Authorization": "Bearer token-1"}
	expect.Deep(t, got, want)
	expect.Deep(t, entry, written, "the entry was changed")
	expect.Equal(t, s.Hide(`Bearer token-1, "from a file\n"`), "Bearer ${cmd:get}, \"${file:x}\"", "hidden")
}

func TestErrors(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	expect.OK(t, os.WriteFile(large, []byte(strings.Repeat("hunter", vault.MaxValue)), 0o600))
	for _, c := range []struct {
		ref  reference.Reference
		says string
	}{
		{reference.Reference{Text: "${keyring:A}", Kind: reference.Keyring, Body: "A"}, "the secret A is not set; run: metarouter secret set A"},
		{reference.Reference{Text: "${keyring:EMPTY}", Kind: reference.Keyring, Body: "EMPTY"}, "${keyring:EMPTY} has no value: it is empty"},
		{reference.Reference{Text: "${keyring:ZERO}", Kind: reference.Keyring, Body: "ZERO"}, "zero byte"},
		{reference.Reference{Text: "${file:x}", Kind: reference.File, Body: "/no/such/file"}, "${file:x} has no value: no such file"},
		{reference.Reference{Text: "${file:x}", Kind: reference.File, Body: large}, "larger than"},
		{reference.Reference{Text: "${op://v/i/f}", Kind: reference.OnePassword, Body: "op://v/i/f"}, "${op://v/i/f} has no value"},
		{command("exit 3"), "${cmd:exit 3} has no value: the command exited"},
	} {
		t.Setenv("PATH", "/usr/bin:/bin")
		s := New(store{"EMPTY": "", "ZERO": "hunter\x00"}, (&shell{fails: "exited with status 3"}).run).Server(nil, nil)
		_, err := s.Resolve(t.Context(), config.Server{References: []reference.Reference{c.ref}})
		if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "token-") {
			t.Errorf("%s: %v", c.ref.Text, err)
		}
	}
}

// A command runs once for all who need its value, and again once that was refused.
func TestCommandRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := &shell{takes: time.Second}
		r := New(nil, sh.run)
		entry := config.Server{Env: map[string]string{"T": "${cmd:get}"}, References: []reference.Reference{command("get")}}
		values := make(chan string, 5)
		var group sync.WaitGroup
		for range cap(values) {
			group.Go(func() {
				got, err := r.Server(nil, nil).Resolve(t.Context(), entry)
				if err != nil {
					t.Error(err)
				}
				values <- got.Env["T"]
			})
		}
		group.Wait()
		close(values)
		for value := range values {
			expect.Equal(t, value, "token-1")
		}
		s := r.Server(nil, nil)
		s.Forget(entry)
		if got, err := s.Resolve(t.Context(), entry); err != nil || got.Env["T"] != "token-2" {
			t.Errorf("%q, %v", got.Env["T"], err)
		}
		other := entry
		other.InheritEnv = []string{"VAULT_TOKEN"}
		if got, err := s.Resolve(t.Context(), other); err != nil || got.Env["T"] != "token-3" {
			t.Errorf("with another environment: %q, %v", got.Env["T"], err)
		}
	})
}

// A caller that gives up does not fail the others.
func TestAbortedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil, (&shell{takes: time.Second}).run)
		entry := config.Server{Env: map[string]string{"T": "${cmd:get}"}, References: []reference.Reference{command("get")}}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := r.Server(nil, nil).Resolve(ctx, entry); err == nil {
				t.Error("no error")
			}
		})
		synctest.Wait()
		group.Go(func() {
			if got, err := r.Server(nil, nil).Resolve(t.Context(), entry); err != nil || got.Env["T"] != "token-1" {
				t.Errorf("%q, %v", got.Env["T"], err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
	})
}

func TestLateCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nil, (&shell{takes: time.Hour}).run)
		began := time.Now()
		_, err := r.Server(nil, nil).Resolve(t.Context(), config.Server{References: []reference.Reference{command("sleep")}})
		if err == nil || !strings.Contains(err.Error(), "did not end within 10s") || time.Since(began) != commandTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// Commands get no secrets of the router but those that programs for secrets need.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter1")
	t.Setenv("VAULT_TOKEN", "hunter2")
	t.Setenv("OP_SERVICE_ACCOUNT_TOKEN", "hunter3")
	sh := new(shell)
	entry := config.Server{InheritEnv: []string{"VAULT_TOKEN"}, References: []reference.Reference{command("get")}}
	_, err := New(nil, sh.run).Server(nil, nil).Resolve(t.Context(), entry)
	expect.OK(t, err)
	c := sh.ran[0]
	if slices.Contains(c.Env, "AWS_SECRET_ACCESS_KEY=hunter1") || !slices.Contains(c.Env, "VAULT_TOKEN=hunter2") || !slices.Contains(c.Env, "OP_SERVICE_ACCOUNT_TOKEN=hunter3") {
		t.Errorf("environment %q", c.Env)
	}
	expect.Equal(t, c.Dir, os.TempDir(), "it runs in")
}

func TestHide(t *testing.T) {
	s := New(store{"KEY": "-----BEGIN KEY-----\nabcdefgh12345678\n-----END KEY-----\n", "PIN": "12345", "AB": "ab", "L": "12345678"}, nil).Server(nil, nil)
	var refs []reference.Reference
	for _, name := range []string{"KEY", "PIN", "AB", "L"} {
		refs = append(refs, reference.Reference{Text: "${keyring:" + name + "}", Kind: reference.Keyring, Body: name})
	}
	_, err := s.Resolve(t.Context(), config.Server{References: refs})
	expect.OK(t, err)
	for text, want := range map[string]string{
		"line abcdefgh12345678 of it": "line ${keyring:KEY} of it",
		"pin 12345, long 12345678":    "pin ${keyring:PIN}, long ${keyring:L}",
		"about":                       "about",
	} {
		expect.Equal(t, s.Hide(text), want, "%q became", text)
	}
}

// The secrets of a client are resolved as headers are, and the entry stays as it is.
func TestResolveOAuth(t *testing.T) {
	entry := config.Server{
		URL: "https://a.example", OAuth: &config.OAuth{ClientID: "${keyring:A}", ClientSecret: "x${keyring:A}", PrivateKey: "${keyring:B}"},
		References: []reference.Reference{{Text: "${keyring:A}", Kind: reference.Keyring, Body: "A"}, {Text: "${keyring:B}", Kind: reference.Keyring, Body: "B"}},
	}
	s := New(store{"A": "secret-of-a", "B": "-----BEGIN KEY-----\nabcdefgh\n"}, nil).Server(nil, nil)
	got, err := s.Resolve(t.Context(), entry)
	if err != nil || !reflect.DeepEqual(*got.OAuth, config.OAuth{ClientID: "${keyring:A}", ClientSecret: "xsecret-of-a", PrivateKey: "-----BEGIN KEY-----\nabcdefgh\n"}) {
		t.Errorf("%+v, %v", got.OAuth, err)
	}
	expect.Equal(t, entry.OAuth.ClientSecret, "x${keyring:A}", "the entry was changed: %+v", entry.OAuth)
	expect.Equal(t, s.Hide("key abcdefgh of secret-of-a"), "key ${keyring:B} of ${keyring:A}")
}

// Tokens are hidden, the last of them only, and do not displace the values of references.
func TestHideToken(t *testing.T) {
	var noted []string
	s := New(store{"A": "secret-of-a"}, nil).Server(nil, func(values []string) { noted = append(noted, values...) })
	entry := config.Server{Env: map[string]string{"T": "${keyring:A}"}, References: []reference.Reference{{Text: "${keyring:A}", Kind: reference.Keyring, Body: "A"}}}
	_, err := s.Resolve(t.Context(), entry)
	expect.OK(t, err)
	for i := range 300 {
		if first, second := s.HideToken(fmt.Sprintf("token-%03d", i)), s.HideToken(fmt.Sprintf("token-%03d", i)); !first || second {
			t.Errorf("token %d is new: %t, then %t", i, first, second)
		}
	}
	expect.Equal(t, s.Hide("token-299 token-292 token-291 secret-of-a"), "${token of its login} ${token of its login} token-291 ${keyring:A}")
	expect.Equal(t, len(noted), 1, "values were")
	s.told = s.told.Add(-2 * time.Hour)
	if first, second := s.HideToken("token-299"), s.HideToken("token-299"); !first || second {
		t.Errorf("hours later the token is new: %t, then %t", first, second)
	}
}

// A token that a server repeats is hidden in its messages, but no word that anyone may use.
func TestHideTokensInMessages(t *testing.T) {
	s := New(store{}, nil).Server(nil, nil)
	for _, token := range []string{"content", "long-token-of-a-login", `with"quote"and/slash+`} {
		s.HideToken(token)
	}
	const message = `{"content":"Bearer long-token-of-a-login, with\"quote\"and/slash+, with%22quote%22and%2Fslash%2B"}`
	given := []byte(message)
	const want = `{"content":"Bearer ${token of its login}, ${token of its login}, ${token of its login}"}`
	expect.Equal(t, string(s.HideTokens(given)), want)
	expect.Equal(t, string(given), message, "the message itself was changed to")
}

// Everyone's logs hide a user's value only if it can't be a word of others, no claim, and the administrator's whatever it is. The user's session hides both values.
func TestUserChoosesNoWords(t *testing.T) {
	entry := config.Server{Headers: map[string]string{"A": "${user:a}", "B": "${user:b}", "C": "${claim:c}"}, References: []reference.Reference{
		{Text: "${keyring:K}", Kind: reference.Keyring, Body: "K"},
		{Text: "${user:a}", Kind: reference.User, Body: "a"}, {Text: "${user:b}", Kind: reference.User, Body: "b"}, {Text: "${claim:c}", Kind: reference.Claim, Body: "c"},
	}}
	var noted []string
	stored := store{vault.UserValue("ann", "a"): "refused", vault.UserValue("ann", "b"): "a-key-of-16-bytes", "K": "short-key"}
	s := New(stored, nil).Server(&User{Principal: "ann", Claims: `{"c":"ann.of.a.long.name@example"}`}, func(values []string) { noted = append(noted, values...) })
	got, err := s.Resolve(t.Context(), entry)
	expect.OK(t, err)
	expect.Equal(t, got.Headers["A"]+got.Headers["B"]+got.Headers["C"], "refuseda-key-of-16-bytesann.of.a.long.name@example")
	expect.Equal(t, strings.Join(noted, " "), "short-key a-key-of-16-bytes")
	expect.Equal(t, s.Hide("refused a-key-of-16-bytes ann.of.a.long.name@example"), "${user:a} ${user:b} ann.of.a.long.name@example")
}
