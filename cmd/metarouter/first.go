package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

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
		return exit.Usage(errors.New("name one file with --config"))
	}
	f, err := clients.Read(paths[0])
	if err != nil {
		return err
	}
	if f.Exists {
		return exit.Usage(fmt.Errorf("%s exists already, and stays as it is; add servers to it with 'metarouter add' or 'metarouter import'", f.Path))
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
		env.Note("note: clients can read the files of %s through the server \"files\"; write another folder, or remove it", folder)
	}
	if !write {
		env.Note(notWritten)
		return nil
	}
	if _, err := writeOurs(env, f, text, fs.ModePerm); err != nil {
		return err
	}
	env.Note("next: metarouter servers%s, then metarouter install CLIENT%s --write", env.files.Flags(), env.files.Flags())
	return nil
}
