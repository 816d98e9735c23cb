package edit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// Add puts an entry into the configuration in use, and offers to log in to the server if that may be
// needed. text returns the entry as it is written into the file at path.
func Add(ctx context.Context, e *Editor, name string, text func(path string) string, replace bool) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	f, number, err := fileOf(files, name)
	switch {
	case err != nil:
		return err
	case number == 0:
		f = files[len(files)-1]
	case !replace:
		return console.Usage(fmt.Errorf("there is a server %q already, in %s; add --replace to replace it, or choose another name", name, f.Path))
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
	used, err := e.apply(f)
	if used && login && err == nil {
		return e.Offer(ctx, pathsOf(files), []string{name})
	}
	if used && err == nil {
		e.Console.Note("next: metarouter tools %s", commandline.Quote(name))
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
	if refused || len(c.Servers) == 0 { // a setting has the name, or is in the entry, or that is no object
		return false, console.Usage(fmt.Errorf("the entry %q: %s", name, cmp.Or(problem.Message, "it is no entry of a server")))
	}
	s := c.Servers[0]
	if s.Self {
		return false, console.Usage(fmt.Errorf("this entry would start metarouter within metarouter; to add metarouter to a client, use 'metarouter install CLIENT'"))
	}
	if clients.HasComments(entry) {
		e.Console.Note("note: the entry has comments or trailing commas, which are left out")
	}
	fatal := ""
	for _, p := range c.Problems {
		if s.Misconfigured != "" && p.Unset == "" && p.Severity != "warning" {
			fatal = cmp.Or(fatal, p.Message)
			continue
		}
		e.Console.Note("note: %s", p.Message)
	}
	if fatal != "" {
		return false, console.Usage(errors.New(fatal))
	}
	if login = clients.MayNeedLogin(s); login {
		e.noteNames(mayNeedLogin, []string{name}, "")
	}
	warned := slices.ContainsFunc(c.Problems, func(p config.Problem) bool { return p.ClearSecret })
	if !warned && slices.ContainsFunc(written.Servers[0].Launch().Secrets(), func(value string) bool { return !strings.Contains(value, "${") }) {
		e.Console.Note("note: a value that may be secret stands in the file as text; to keep it out, run 'metarouter secret set NAME --from %s' once it is written", commandline.Quote(name))
	}
	return login, nil
}

// TrustNode adds the public key of a node to those that the configuration in use trusts.
func TrustNode(e *Editor, key string) error {
	if err := clusternode.CheckKey(key); err != nil {
		return console.Usage(fmt.Errorf("the given text %w", err))
	}
	files, err := e.inUse()
	if err != nil {
		return err
	}
	if len(files) > 1 {
		return console.Usage(errors.New("name one file with --config, the one whose \"trusted\" counts"))
	}
	f := files[0]
	if f.text, err = clients.TrustNode(f.Path, f.Data, key); err != nil {
		return console.Usage(err)
	}
	_, err = e.apply(f)
	return err
}
