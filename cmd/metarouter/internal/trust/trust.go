// Package trust shows a person what a configuration would run, and asks whether it may.
// A configuration that was found and not named runs commands of other people, so that it
// must be approved first. Package config keeps the approvals.
package trust

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Ask shows on out what the servers of c would run, and reads from in whether to use
// them. The error is ctx's. If ctx ends first, a goroutine goes on reading from in: the
// program must end then.
func Ask(ctx context.Context, in io.Reader, out io.Writer, c config.Config) (yes bool, err error) {
	fmt.Fprintf(out, "%s is not approved, or changed since you approved it. It would run:\n%sUse it? [y/N] ", c.Files[0], Describe(c))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// Describe lists what the servers of c run, with everything that decides what the
// commands do. Words of the file are quoted, so that they can't move the cursor.
func Describe(c config.Config) string {
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

// quote returns a word unchanged if it is printable and has no space, else quoted.
func quote(word string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.Quote(word)
}
