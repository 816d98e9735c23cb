// Package resolve turns the references to secrets of an entry into their values, when a
// process starts or a request is sent.
//
// A [Resolver] is shared by all servers. It keeps the output of commands, until a
// server that uses a value has it forgotten. Values of our own store and of files are read
// each time. A [Server] resolves for one server, and hides the values in texts.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

const (
	// commandTime is how long a command may run.
	commandTime = 10 * time.Second
	// storeTime is how long the store may take: its keyring may show a dialog.
	storeTime = 20 * time.Second
	// maxCommands is how many commands run at the same time.
	maxCommands = 4
)

// A Store has the secrets of ${keyring:NAME}, as a [vault.Vault] does.
type Store interface {
	Get(ctx context.Context, name string) (string, error)
}

// A Runner runs a command until it ends or ctx does, and returns its stdout, as
// [process.Starter.Run] does.
type Runner func(ctx context.Context, c process.Command, stderr *process.Tail, file *process.LogFile) (out []byte, failure string, err error)

// A Resolver gets the values of references.
type Resolver struct {
	store Store
	run   Runner
	slots chan struct{} // holds an item for each command that runs

	mu      sync.Mutex // guards printed
	printed map[string]*result
}

// A result is the output of a command.
type result struct {
	done  chan struct{} // closed when value and err are valid
	value string
	err   error
}

// New returns a Resolver. store may be nil: then no secret is set.
func New(store Store, run Runner) *Resolver {
	return &Resolver{store: store, run: run, slots: make(chan struct{}, maxCommands), printed: make(map[string]*result)}
}

// An Error is a reference without a value. It never contains a value.
type Error struct {
	Reference string // as the entry has it
	Err       error
}

func (e *Error) Error() string {
	if missing, ok := errors.AsType[*vault.MissingError](e.Err); ok {
		return missing.Error()
	}
	return fmt.Sprintf("%s has no value: %v", e.Reference, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// value returns the value of a reference of the entry.
func (r *Resolver) value(ctx context.Context, entry config.Server, ref reference.Reference) (string, error) {
	value, err := r.read(ctx, entry, ref)
	switch {
	case err != nil:
	case value == "":
		err = errors.New("it is empty")
	case len(value) > vault.MaxValue:
		err = fmt.Errorf("it is larger than %d KiB", vault.MaxValue>>10)
	case strings.ContainsRune(value, 0):
		err = errors.New("it has a zero byte, which no variable and no header can hold")
	}
	if err != nil {
		return "", &Error{ref.Text, err}
	}
	return value, nil
}

func (r *Resolver) read(ctx context.Context, entry config.Server, ref reference.Reference) (string, error) {
	switch ref.Kind {
	case reference.Keyring:
		if r.store == nil {
			return "", &vault.MissingError{Name: ref.Body}
		}
		ctx, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		return r.store.Get(ctx, ref.Body)
	case reference.File:
		data, err := safefile.Read(ref.Body, vault.MaxValue+2)
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			return "", e.Err
		}
		return withoutLineEnd(string(data)), err
	case reference.Command, reference.OnePassword:
		return r.printedBy(ctx, entry, ref)
	}
	return "", fmt.Errorf("references of the kind %q are unknown", ref.Kind)
}

// printedBy returns the output of the command of a reference.
func (r *Resolver) printedBy(ctx context.Context, entry config.Server, ref reference.Reference) (string, error) {
	key := keyOf(entry, ref)
	for {
		r.mu.Lock()
		known, ok := r.printed[key]
		if !ok {
			known = &result{done: make(chan struct{})}
			r.printed[key] = known
		}
		r.mu.Unlock()
		if !ok {
			known.value, known.err = r.command(ctx, entry, ref)
			if known.err != nil {
				r.mu.Lock()
				delete(r.printed, key)
				r.mu.Unlock()
			}
			close(known.done)
			return known.value, known.err
		}
		select {
		case <-known.done:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if !errors.Is(known.err, errAborted) { // else it is not this caller that gave up
			return known.value, known.err
		}
	}
}

// keyOf identifies the dependencies of a command.
func keyOf(entry config.Server, ref reference.Reference) string {
	return strings.Join(append([]string{string(ref.Kind), ref.Body, ref.Dir}, entry.InheritEnv...), "\x00")
}

// errAborted is a command that its caller did not wait for.
var errAborted = errors.New("the start was aborted")

// command runs the command of a reference and returns its output. Its environment is
// a server's, with the variables that programs for secrets need.
func (r *Resolver) command(ctx context.Context, entry config.Server, ref reference.Reference) (string, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return "", errAborted
	}
	words := wordsOf(ref)
	path, search, err := process.Find(words[0], ref.Dir, "")
	if err != nil {
		return "", err
	}
	errLate := fmt.Errorf("the command did not end within %s", commandTime)
	bounded, cancel := context.WithTimeoutCause(ctx, commandTime, errLate)
	defer cancel()
	inherit := append(needed(os.Environ()), entry.InheritEnv...)
	stderr := process.NewTail(func(line string) string { return secret.HideMaybe(line, "…") })
	out, failure, err := r.run(bounded, process.Command{
		Path: path, Args: words[1:], Dir: ref.Dir,
		Env: process.Environment(os.Environ(), inherit, search, helperEnv(entry, ref), words),
	}, stderr, &process.LogFile{})
	switch {
	case ctx.Err() != nil:
		return "", errAborted
	case err != nil:
		return "", err
	case failure != "":
		return "", fmt.Errorf("the command %s%s", failure, stderr.Reason())
	}
	return withoutLineEnd(string(out)), nil
}

// wordsOf returns the command line of a reference.
func wordsOf(ref reference.Reference) []string {
	switch {
	case ref.Kind == reference.OnePassword:
		return []string{"op", "read", ref.Body}
	case runtime.GOOS == "windows":
		return []string{"cmd", "/d", "/c", ref.Body}
	}
	return []string{"sh", "-c", ref.Body}
}

// needed returns the names of variables that programs for secrets need and servers do not
// get: variables of the session bus, of GnuPG, pass and 1Password.
func needed(environ []string) []string {
	names := []string{"DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR"}
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OP_") {
			names = append(names, name)
		}
	}
	return names
}

// withoutLineEnd removes one line end.
func withoutLineEnd(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
