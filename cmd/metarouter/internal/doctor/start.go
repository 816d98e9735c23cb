package doctor

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// explainFailure says why a server does not run, and how to fix it. details are lines that it printed, or its answer.
func explainFailure(c Case, entry config.Server, s status.Status) (problem, fix string, details []string) {
	f := s.Fault
	o := output{world: c.World, entry: entry, fault: f, stray: s.StrayLines, strayLine: s.StrayLine}
	switch {
	case f == nil && s.LastError != "" && s.State != status.Starting:
		return fmt.Sprintf("it is %s: %s.", s.State, s.LastError), o.rerun(), nil
	case f == nil:
		return "it is still starting.", "wait and run this again; or give it more time with \"startTimeout\": \"5m\" in its entry", nil
	}
	o.lines = f.Said
	if (f.Kind == status.TimedOut || f.Kind == status.PrintsText) && len(o.lines) == 0 {
		o.lines = s.Stderr
	}
	problem, fix, printed := o.explain()
	switch {
	case printed, f.Kind == status.FetchFailed, f.Kind == status.Exited, f.Kind == status.TimedOut, f.Kind == status.PrintsText:
		details = tail(o.lines)
	case f.Kind == status.Unauthorized, f.Kind == status.BadStatus && f.Code != 404, f.Kind == status.Unreachable:
		details = tail([]string{strings.TrimPrefix(strings.TrimPrefix(f.Message, f.Login.Text()), ": ")})
	}
	return problem, fix, details
}

// BareURL returns a remote entry's url without the parts that may be secret, and its host, which holds no secret.
func BareURL(entry config.Server) (bare, host string) {
	u, err := url.Parse(entry.URL)
	if err != nil || u.Host == "" {
		return "its url", "its url"
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return secret.URL(u.String(), "…"), u.Host
}

// example quotes a stray line on stdout, if it is known.
func example(line string) string {
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", console.Cut(line, 80))
}

// rerun says how to see more of a server that fails.
func (o output) rerun() string {
	if o.entry.Transport != config.Stdio {
		return "check that the url is correct and the server is running"
	}
	return "run it in a terminal to see more: " + byHand(o.entry)
}

// tail returns the last lines, without those that say nothing about the cause.
func tail(lines []string) []string {
	const most = 5
	var kept []string
	for _, line := range lines {
		if line = strings.TrimSpace(plain.Line(line)); line != "" && !noise().MatchString(line) {
			kept = append(kept, console.Cut(line, 160))
		}
	}
	return kept[max(0, len(kept)-most):]
}

// noise matches lines that say nothing about why a program ended: frames of a stack, and
// lines that npm and Node always print.
var noise = lazy.Regexp(`^at .*:\d+|^Node\.js v\d|^[]{}()\[,;^~]+$|^(code: |requireStack)|^npm (warn|notice)\b|A complete log of this run|^npm (error|ERR!)( 404)?$|^node:internal/|^File ".*", line \d+, in `)

// short prints a duration in seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

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
