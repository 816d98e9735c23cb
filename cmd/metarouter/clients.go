package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clients"
)

// oneClient wants the name of a client as the only argument.
func oneClient(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one client: %s", strings.Join(clients.Names(), ", "))
	}
	if _, ok := clients.Find(args[0]); !ok {
		return fmt.Errorf("no client is called %q; there are %s", args[0], strings.Join(clients.Names(), ", "))
	}
	return nil
}

// place is this system.
func place() (clients.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return clients.Place{}, fmt.Errorf("no folder of yours: %w; name the client's file with --file", err)
	}
	glob := func(pattern string) []string {
		found, _ := filepath.Glob(pattern)
		return found
	}
	return clients.Place{OS: runtime.GOOS, Home: home, Env: os.Getenv, Glob: glob}, nil
}

// ownFiles are the absolute paths of the configuration that clients are to use: those of
// --config, else the user's own. A .mcp.json in the current folder is a project's, and a
// client's entry for the user is not.
func (a *app) ownFiles() ([]string, error) {
	if len(a.configs) == 0 {
		own, err := config.Own()
		return []string{own}, usage(err)
	}
	paths, _, err := config.Find(a.configs)
	return paths, usage(err)
}

// aboutProject says so where the current folder has a configuration that is not meant.
func (a *app) aboutProject() {
	if _, err := os.Stat(".mcp.json"); err == nil && len(a.configs) == 0 {
		a.say("note: this is about your own configuration, not about .mcp.json here; for that, add --config .mcp.json")
	}
}

// ours reads those of our files that are there.
func ours(paths []string) (clients.Ours, error) {
	var o clients.Ours
	var there []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(data)) == "" {
			continue
		}
		if err != nil {
			return o, usage(fmt.Errorf("read config: %w", err))
		}
		there = append(there, path)
		o.Files = append(o.Files, clients.Source{Path: path, Data: data})
	}
	var err error
	o.Config, err = config.Load(there...)
	return o, usage(err)
}

// firstFile is the first path that is there, "" if none is.
func firstFile(paths []string) string {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// startable is the absolute path by which a client can start this program tomorrow: a
// link on PATH that leads here, since package managers move what it leads to, else the
// program's own.
func startable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	for _, folder := range strings.Split(filepath.ToSlash(exe), "/") {
		if strings.HasPrefix(folder, "go-build") {
			return "", errors.New("this program was built by 'go run' and will be gone; run 'go install github.com/mcp-metarouter/metarouter/cmd/metarouter', then 'metarouter install' again")
		}
	}
	self, err := os.Stat(exe)
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if link, err := exec.LookPath("metarouter"); err == nil {
		there, err := os.Stat(link)
		if err == nil && os.SameFile(self, there) {
			return filepath.Abs(link)
		}
	}
	return exe, nil
}

// plain is s with nothing that moves the cursor, since a stranger may have written it.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// say prints a line on stderr.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.stderr, plain(fmt.Sprintf(format, args...)))
}

// printDiff prints what makes new of old on stdout.
func (a *app) printDiff(path string, old, new []byte) {
	_, colour := a.paper()
	for line := range strings.Lines(clients.Diff(path, old, new)) {
		line = plain(strings.TrimSuffix(line, "\n"))
		code := ""
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			code = "1"
		case strings.HasPrefix(line, "@@"):
			code = "36"
		case strings.HasPrefix(line, "-"):
			code = "31"
		case strings.HasPrefix(line, "+"):
			code = "32"
		}
		if colour && code != "" {
			line = "\x1b[" + code + "m" + line + "\x1b[m"
		}
		fmt.Fprintln(a.stdout, line)
	}
}

// write replaces a file and says where the copy of the old one is.
func (a *app) write(f clients.File, data []byte, keep fs.FileMode) error {
	backup, err := f.Write(data, keep, time.Now())
	if err != nil {
		return err
	}
	if backup == "" {
		a.say("%s is written", f.Path)
	} else {
		a.say("%s is written; what it said before is in %s", f.Path, backup)
	}
	return nil
}

func (a *app) notWritten() {
	a.say("nothing was written; add --write")
}
