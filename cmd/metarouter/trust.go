package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

func (a *app) trust() *cobra.Command {
	return leaf("trust [FILE]", "Approve a project's .mcp.json, whose commands will be run",
		`  metarouter trust
  metarouter trust ../other/.mcp.json`,
		cobra.MaximumNArgs(1), func(_ context.Context, args []string) error {
			path := ".mcp.json"
			if len(args) == 1 {
				path = args[0]
			}
			c, err := config.Load(path)
			if err != nil {
				return usage(err)
			}
			if err := c.Trust(a.data); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s is trusted as it is now. It runs:\n%s", path, commands(c))
			return nil
		})
}

// requireTrust makes sure that a configuration that was merely found may be
// used: it is approved, or somebody at the terminal says so.
func (a *app) requireTrust(ctx context.Context, c config.Config) error {
	if c.Trusted(a.data) {
		return nil
	}
	path := c.Files[0]
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usage(fmt.Errorf("%s is not trusted: it was found in this folder, and would run commands; look at it, then approve it with 'metarouter trust', or name it with --config", path))
	}
	fmt.Fprintf(a.stderr, "%s was found in this folder. It would run:\n%sUse it? [y/N] ", path, commands(c))
	answer := make(chan string, 1)
	go func() { // ends with the program at the latest
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
			return usage(errors.New("not trusted, nothing was started"))
		}
	case <-ctx.Done():
		return errInterrupted
	}
	if a.data == "" {
		return nil // this once
	}
	return c.Trust(a.data)
}

// commands lists what the servers of c run, with all that decides what that
// does. What a stranger wrote is quoted, so that it can't move the cursor.
func commands(c config.Config) string {
	var b strings.Builder
	for _, s := range c.Servers {
		words := []string{s.URL}
		if s.Command != "" {
			words = append([]string{s.Command}, s.Args...)
		}
		fmt.Fprintf(&b, "  %-20s", quote(s.Name))
		for _, word := range words {
			b.WriteString(" " + quote(word))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			shown := s.Env[name]
			if secret.Named(name) {
				shown = "•••"
			}
			fmt.Fprintf(&b, "\n  %-20s   with %s=%s", "", quote(name), quote(shown))
		}
		if s.Cwd != "" {
			fmt.Fprintf(&b, "\n  %-20s   in %s", "", quote(s.Cwd))
		}
		if s.Disabled {
			b.WriteString(" (disabled)")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// quote returns a word as it is if it is plain, else quoted.
func quote(word string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.Quote(word)
}
