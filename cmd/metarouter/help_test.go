package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/ended"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The help of every command fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	var text bytes.Buffer
	root := newRootCommand(&configfile.Source{Console: console.New(nil, &text, &text)}, nil)
	all := append(root.Commands(), root)
	for _, cmd := range root.Commands() {
		all = append(all, cmd.Commands()...)
	}
	for _, cmd := range all {
		if ended.Commands()[cmd.Name()] != "" {
			continue
		}
		text.Reset()
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
		expect.OK(t, root.Execute())
		example := false // may be as long as it must
		for line := range strings.Lines(text.String()) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || !strings.HasPrefix(line, " ") {
				example = strings.HasPrefix(line, "Example") || strings.HasPrefix(line, "Usage")
			}
			if n := utf8.RuneCountInString(line); n > 80 && !example && !strings.Contains(cmd.CommandPath(), "completion") {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	}
}

// Each section of help.txt is about a command, and each command has one.
func TestHelpText(t *testing.T) {
	root := newRootCommand(&configfile.Source{Console: console.New(nil, io.Discard, io.Discard)}, nil)
	for path := range help() {
		if cmd, _, err := root.Find(strings.Fields(path)); err != nil || cmd.CommandPath() != "metarouter "+path || cmd.Short == "" {
			t.Errorf("%s is no command, or has no help: %v", path, err)
		}
	}
	for _, name := range clients.Names() {
		if !strings.Contains(help()["install"], name) || !strings.Contains(help()["import"], name) {
			t.Errorf("a help does not name %s", name)
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.Short == "" && ended.Commands()[cmd.Name()] == "" {
			t.Errorf("%s has no help", cmd.Name())
		}
	}
}

// The help groups the commands.
func TestHelpGroups(t *testing.T) {
	var text bytes.Buffer
	root := newRootCommand(&configfile.Source{Console: console.New(nil, &text, &text)}, nil)
	root.SetArgs([]string{"--help"})
	expect.OK(t, root.Execute())
	for _, cmd := range root.Commands() {
		if _, below, _ := strings.Cut(text.String(), "\n"+cmd.GroupID+"\n"); cmd.GroupID != "" && !strings.Contains("\n"+below, "\n  "+cmd.Name()+" ") {
			t.Errorf("%s is not below %q", cmd.Name(), cmd.GroupID)
		}
	}
	expect.Contains(t, text.String(), "\n  man ", "the manual is not listed")
}

// The advice about arguments names the whole command.
func TestArgumentsOfSubcommand(t *testing.T) {
	root := newRootCommand(&configfile.Source{Console: console.New(nil, io.Discard, io.Discard)}, nil)
	for line, want := range map[string]string{
		"secret set":      "write: metarouter secret set NAME",
		"token new extra": "write: metarouter token new",
		"restart":         "write: metarouter restart NAME",
	} {
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want the end %q", line, err, want)
		}
	}
}

// A word that is no command is an error, though help or a flag stands before it.
func TestNoCommand(t *testing.T) {
	for line, want := range map[string]string{
		"help nosuch":      `no command is called "nosuch"`,
		"help secret x":    `no command is called "secret x"`,
		"--config servers": "no command is named",
	} {
		var out, errors bytes.Buffer
		if code := run(strings.Fields(line), nil, &out, &errors); code != console.BadUsage || out.Len() > 0 || !strings.Contains(errors.String(), want) {
			t.Errorf("%s: exit code %d, %q, %q", line, code, out.String(), errors.String())
		}
	}
	var out bytes.Buffer
	if code := run([]string{"help", "secret", "set"}, nil, &out, io.Discard); code != 0 || !strings.Contains(out.String(), "metarouter secret set NAME") {
		t.Errorf("help of a subcommand: exit code %d, %q", code, out.String())
	}
}
