package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// notWritten ends the output of import and install without --write.
const notWritten = "nothing was written; add --write"

// oneClient checks that the name of a client is the only argument.
func oneClient(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one client: %s", strings.Join(clients.Names(), ", "))
	}
	if _, ok := clients.Find(args[0]); !ok {
		return fmt.Errorf("no client is called %q; the clients are %s", args[0], strings.Join(clients.Names(), ", "))
	}
	return nil
}

// ownFiles returns the absolute paths of the configuration that clients are to use: the
// files of --config, else the user's own. A .mcp.json in the current folder belongs to a
// project, and a client's entry for the user does not.
func ownFiles(env *environment) ([]string, error) {
	if len(env.files.Paths) == 0 {
		own, err := config.Own()
		return []string{own}, exit.Usage(err)
	}
	paths, _, err := config.Find(env.files.Paths)
	return paths, exit.Usage(err)
}

// readOurs reads those of our files that exist.
func readOurs(paths []string) (clients.Ours, error) {
	o, err := clients.ReadOurs(paths)
	return o, exit.Usage(err)
}

// noteProjectFile says that a .mcp.json in the current folder is not used.
func noteProjectFile(env *environment) {
	if _, err := os.Stat(".mcp.json"); err == nil && len(env.files.Paths) == 0 {
		env.Note("note: this is about your own configuration, not about .mcp.json here; for that, add --config .mcp.json")
	}
}

// noteOwnFile says that an edit is about the user's own configuration, where the current
// folder could have one.
func noteOwnFile(env *environment, path string) {
	own, _ := config.Own()
	folder, _ := os.Getwd()
	if home, _ := os.UserHomeDir(); len(env.files.Paths) == 0 && path == own && folder != home {
		env.Note("note: %s is your own configuration; for one of this folder, add --config .mcp.json", path)
	}
}

// printDiff prints on stdout what changes old into new.
func printDiff(env *environment, path string, old, new []byte) {
	printDiffLines(env, clients.Diff(path, old, new))
}

// printDiffLines prints a diff on stdout.
func printDiffLines(env *environment, diff string) {
	_, colours := env.Page()
	for line := range strings.Lines(diff) {
		line = plain.Text(strings.TrimSuffix(line, "\n"))
		colour := terminal.Plain
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			colour = terminal.Bold
		case strings.HasPrefix(line, "@@"):
			colour = terminal.Cyan
		case strings.HasPrefix(line, "-"):
			colour = terminal.Red
		case strings.HasPrefix(line, "+"):
			colour = terminal.Green
		}
		fmt.Fprintln(env.Out, terminal.Paint(line, colour, colours))
	}
}

// writeFile replaces a file and names the copy of the old one.
func writeFile(env *environment, f clients.File, data []byte, keep fs.FileMode) error {
	first := len(f.Backups()) == 0
	backup, err := f.Write(data, keep, time.Now())
	if err != nil {
		return err
	}
	env.files.Record(audit.Event{Action: audit.Edit, Outcome: audit.OK, Target: f.Path, Reason: "written by a command"})
	if backup == "" {
		env.Note("%s is written", f.Path)
	} else {
		env.Note("%s is written; its old content is in %s", f.Path, backup)
		if folder := filepath.Dir(f.Path); first && clients.FirstExisting(filepath.Join(folder, ".git")) != "" {
			env.Note("note: the copy has the values of the file; do not commit it (in .gitignore: *%s*)", clients.BackupMark)
		}
	}
	return nil
}
