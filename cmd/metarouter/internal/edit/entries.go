package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
)

// Add puts an entry into the configuration in use, and offers to log in to the server if that may be
// needed. text returns the entry as it is written into the file at path.
func Add(ctx context.Context, e *Editor, name string, text func(path string) string, replace bool) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	f, place, number, err := fileOf(files, name)
	switch {
	case err != nil:
		return err
	case number == 0:
		f = files[len(files)-1]
	case !replace:
		return console.Usage(fmt.Errorf("there is a server %q already, at %s; add --replace to replace it, or choose another name", name, place))
	}
	entry := text(f.Path)
	login, err := judge(e, f, name, entry)
	if err != nil {
		return err
	}
	if f.text, err = clients.PutServer(f.Path, f.Data, name, entry); err != nil {
		return console.Usage(err)
	}
	if clients.Hides(f.Path, []byte(entry)) {
		f.keep = 0o600
	}
	noteOwnFile(e, f.Path)
	used, err := e.apply(f)
	if used && login && err == nil {
		return e.Offer(ctx, pathsOf(files), []string{name})
	}
	if used && err == nil {
		e.Console.Note("next: metarouter tools %s%s", commandline.Quote(name), e.Flags())
	}
	return err
}

// judge prints notes on the mistakes of an entry. If it could never start a server, that is an
// error. login reports whether the server may need a login.
func judge(e *Editor, f file, name, entry string) (login bool, err error) {
	alone, err := clients.PutServer(f.Path, nil, name, entry)
	if err != nil {
		return false, console.Usage(err)
	}
	written, err := config.ReadText(f.Path, alone)
	c, _ := written.Expand() // it is one server
	problem, refused := errors.AsType[config.Problem](err)
	if err != nil && !refused {
		return false, console.Usage(err)
	}
	if len(c.Servers) == 0 { // a setting has the name, or the entry is no object
		why := "it is no entry of a server"
		if refused {
			why = problem.Message
		} else if len(c.Problems) > 0 {
			why = c.Problems[0].Message
		}
		return false, console.Usage(fmt.Errorf("the entry %q: %s", name, why))
	}
	s := c.Servers[0]
	if s.Self {
		return false, console.Usage(fmt.Errorf("this entry would start metarouter within metarouter; to add metarouter to a client, use 'metarouter install CLIENT'"))
	}
	for _, p := range c.Problems {
		if s.Misconfigured != "" && p.Unset == "" && p.Severity != "warning" {
			for _, w := range c.Problems { // such as a misspelled "command"
				if w.Severity == "warning" {
					e.Console.Note("note: %s", w.Message)
				}
			}
			return false, console.Usage(errors.New(p.Message))
		}
		e.Console.Note("note: %s", p.Message)
	}
	if login = clients.MayNeedLogin(entry, s); login {
		e.noteLogin([]string{name})
	}
	warned := slices.ContainsFunc(c.Problems, func(p config.Problem) bool { return p.ClearSecret })
	if !warned && slices.ContainsFunc(written.Servers[0].Launch().Secrets(), func(value string) bool { return !strings.Contains(value, "${") }) {
		e.Console.Note("note: a value that may be secret stands in the file as text; to keep it out, run 'metarouter secret set NAME --from %s' once it is written", commandline.Quote(name))
	}
	return login, nil
}

// noteOwnFile says that an edit is about the user's own configuration, where the current
// folder could have one.
func noteOwnFile(e *Editor, path string) {
	own, _ := configpath.Own()
	folder, _ := os.Getwd()
	if home, _ := os.UserHomeDir(); len(e.Paths) == 0 && path == own && folder != home {
		e.Console.Note("note: %s is your own configuration; for one of this folder, add --config .mcp.json", path)
	}
}

// TrustNode adds the public key of a node to those that the configuration in use trusts.
func TrustNode(e *Editor, key string) error {
	return trusted(e, func(f file) ([]byte, error) {
		if err := clusternode.CheckKey(key); err != nil {
			return nil, fmt.Errorf("the given text %w", err)
		}
		if file, err := configpath.NodeKey(); err == nil {
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) { // else there is no key yet
				if own, err := clusternode.Public(file); err == nil && own == key {
					return nil, errors.New("this is the key of this machine, which it trusts anyway; run this command on the other one")
				}
			}
		}
		return clients.TrustNode(f.Path, f.Data, key)
	})
}

// DistrustNode removes a key from those that the configuration in use trusts.
func DistrustNode(e *Editor, key string) error {
	return trusted(e, func(f file) ([]byte, error) {
		text, err := clients.DistrustNode(f.Path, f.Data, key)
		if err == nil && string(text) == string(f.Data) {
			err = fmt.Errorf("%s does not trust this key; 'metarouter nodes' shows whom it trusts", f.Path)
		}
		return text, err
	})
}

// trusted edits the file with the "trusted" that counts.
func trusted(e *Editor, change func(f file) ([]byte, error)) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	f, err := clusterFile(files)
	if err != nil {
		return err
	}
	if f.text, err = change(f); err != nil {
		return console.Usage(err)
	}
	used, err := e.apply(f)
	if used && err == nil {
		noteShares(e, pathsOf(files))
	}
	return err
}

// clusterFile returns the file with the "trusted" that counts: the last file that has it, else the
// last that has a "cluster", else the last.
func clusterFile(files []file) (found file, err error) {
	best := 0
	for _, f := range files {
		n, err := clients.ClusterKeys(f.Path, f.Data)
		if err != nil {
			return f, console.Usage(err)
		}
		if n < 2 {
			n = 0
		}
		if n >= best {
			found, best = f, n
		}
	}
	return found, nil
}

// noteShares says if no server is shared or used, so that trust has no effect yet.
func noteShares(e *Editor, paths []string) {
	c, err := config.LoadText(paths...)
	if err != nil {
		return
	}
	switch in := c.Router.Cluster; {
	case in == nil:
		e.Console.Note(`note: %s names no NATS server yet; write "urls": ["nats://hub:4222"] next to "trusted", or start routers with --cluster URL`, strings.Join(paths, ", "))
	case len(in.Share)+len(in.Use) == 0 && len(in.Trusted) > 0:
		e.Console.Note(`note: nothing is shared or used yet; write "share": ["NAME"] for servers that other machines may use, and "use": ["*@NODE"] for theirs, next to "trusted"`)
	}
}
