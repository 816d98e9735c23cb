package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A noConfigurationError says that there is no configuration yet, and which commands make
// one.
type noConfigurationError struct {
	found []clients.Found
}

func (e *noConfigurationError) Error() string {
	if len(e.found) == 0 {
		return "there is no configuration yet, and no client was found that has servers; begin with\n" +
			"  metarouter init --write\n" +
			"or add a server with 'metarouter add NAME --write -- COMMAND', or name a file with --config"
	}
	var b strings.Builder
	b.WriteString("there is no configuration yet; import the servers of a client:\n")
	for _, f := range e.found {
		fmt.Fprintf(&b, "  %s\n      %s\n", plain.Line(f.Command()), plain.Line(f.String()))
	}
	b.WriteString("or begin with the bundled servers, 'metarouter init --write', or name a file with --config")
	return b.String()
}

// problem is the error as a problem of the user's own file.
func (e *noConfigurationError) problem(severity string) config.Problem {
	const what = "there is no configuration yet; type "
	p := config.Problem{Severity: severity, Fix: "metarouter init --write", Message: what + "'metarouter init --write', or add a server with 'metarouter add'"}
	p.File, _ = config.Own()
	if len(e.found) > 0 {
		p.Fix = plain.Line(e.found[0].Command())
		p.Message = fmt.Sprintf("%s'%s' to import %s, or 'metarouter init --write'", what, p.Fix, plain.Line(e.found[0].String()))
	}
	return p
}

// noConfiguration returns the error that there is no configuration yet.
func noConfiguration() error {
	e := &noConfigurationError{}
	if p, err := clients.ThisPlace(); err == nil {
		folder, _ := os.Getwd()
		e.found = clients.Survey(p, folder)
	}
	return usage(e)
}

// findConfig is config.Find, with advice if there is no configuration yet: no file is found,
// or --config names the user's own file, as entries of 'install' do, and it does not exist.
func findConfig(env *environment) (paths []string, named bool, err error) {
	paths, named, err = config.Find(env.configs)
	own, _ := config.Own()
	if errors.Is(err, fs.ErrNotExist) || len(paths) == 1 && paths[0] == own && clients.FirstExisting(own) == "" {
		return nil, false, noConfiguration()
	}
	return paths, named, usage(err)
}

func newInitCommand(env *environment) *cobra.Command {
	var write bool
	cmd := newCommand("init", "Write a first configuration",
		`  metarouter init                              # show the file
  metarouter init --write                      # write it
  metarouter init --config .mcp.json --write   # for the project in this folder`,
		noArguments, func(context.Context, []string) error { return runInit(env, write) })
	cmd.Long = `Writes a first configuration, with the bundled servers, into your own file or the one of
--config. A file that exists stays as it is; see 'metarouter add' and 'metarouter import'.

It prints the file. --write writes it.`
	addWriteFlag(cmd, &write)
	cmd.Flags().Lookup("write").Usage = "Write the file. By default it is only shown."
	return cmd
}

func runInit(env *environment, write bool) error {
	paths, err := ownFiles(env)
	if err != nil {
		return err
	}
	if len(paths) > 1 {
		return usage(errors.New("name one file with --config"))
	}
	f, err := clients.Read(paths[0])
	if err != nil {
		return err
	}
	if f.Exists {
		return usage(fmt.Errorf("%s exists already, and stays as it is; add servers to it with 'metarouter add' or 'metarouter import'", f.Path))
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	noteProjectFile(env)
	home, _ := os.UserHomeDir()
	text, files := clients.FirstFile(f.Path, folder, home)
	printDiff(env, f.Path, nil, text)
	if files {
		env.note("note: clients can read the files of %s through the server \"files\"; write another folder, or remove it", folder)
	}
	if !write {
		env.note(notWritten)
		return nil
	}
	if _, err := writeOurs(env, f, text, fs.ModePerm); err != nil {
		return err
	}
	env.note("next: metarouter servers%s, then metarouter install CLIENT%s --write", configFlags(env), configFlags(env))
	return nil
}
