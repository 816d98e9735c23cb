package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// concealed returns the status without secrets and unprintable characters in the server's answers.
// The supervisor has removed them from the lines on stderr.
func concealed(entry config.Server, s status.Status) status.Status {
	hide := entry.Launch().Concealer()
	conceal := func(text string) string { return hide(plain.Line(text)) }
	s.LastError, s.StrayLine, s.Outdated = conceal(s.LastError), conceal(s.StrayLine), conceal(s.Outdated)
	if s.Fault != nil {
		f := *s.Fault
		f.Message = conceal(f.Message)
		s.Fault = &f
	}
	return s
}

// quoted returns words as the elements of a JSON array.
func quoted(words []string) string {
	var all []string
	for _, w := range secret.Words(words, "…") {
		all = append(all, strconv.Quote(w))
	}
	return strings.Join(all, ", ")
}

// CommandLine returns the entry's command as a person types it, without secrets.
func CommandLine(entry config.Server) string {
	words := secret.Words(append([]string{entry.Command}, entry.Args...), "…")
	for i, w := range words {
		words[i] = commandline.Quote(plain.Line(w))
	}
	return console.Cut(strings.Join(words, " "), 500)
}

// byHand returns the command line with the folder in which it runs.
func byHand(entry config.Server) string {
	line := CommandLine(entry)
	if entry.Cwd != "" {
		return fmt.Sprintf("cd %s && %s", commandline.Quote(plain.Line(entry.Cwd)), line)
	}
	return line
}
