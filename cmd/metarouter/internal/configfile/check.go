package configfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/script"
)

// Check prints every problem of the configuration files, and fails if there are errors.
func (s *Source) Check(ctx context.Context) error {
	paths, named, err := s.Find()
	if none, ok := errors.AsType[*NoConfiguration](err); ok && s.Console.JSON {
		return printProblems(s.Console, config.Config{Problems: []config.Problem{none.Problem("error")}})
	}
	if err != nil {
		return err
	}
	c, usable, err := s.Read(paths, named)
	if p, ok := errors.AsType[config.Problem](err); ok {
		if c.Problems == nil { // it is no JSON
			c = config.Config{Files: paths, Problems: []config.Problem{p}}
		} else {
			c = c.Examine()
		}
		s.Console.Note("note: no router starts with this text; one that runs goes on with the last good one")
		return printProblems(s.Console, c)
	} else if err != nil {
		return console.Usage(Unreadable(err))
	}
	c = c.Examine()
	c.Problems = append(c.Problems, scriptProblems(ctx, c)...)
	err = printProblems(s.Console, c)
	defaults, _ := config.Load() // of no files
	if keys := config.RestartKeys(defaults.Router, c.Router); len(keys) > 0 && !s.Console.JSON {
		s.Console.Say("an edit of these keys takes effect at the router's next start: %s", strings.Join(keys, ", "))
	}
	if !usable {
		why := Explain(c.Text.Trusted(s.Data), s.TrustCommand(""))
		s.Console.Note("note: its variables, regular expressions, envFiles and folders were not checked, and no router uses this text yet: %v", why)
	}
	return err
}

// scriptProblems returns the syntax errors of the stored scripts.
func scriptProblems(ctx context.Context, c config.Config) (problems []config.Problem) {
	engine := script.New("")
	defer engine.Close()
	for _, server := range c.Servers {
		for _, s := range server.Scripts {
			if e := engine.Compile(ctx, s.Code); e != nil {
				problems = append(problems, config.Problem{File: filepath.Join(c.Router.Scripts.Folder, s.Name+".js"), Line: e.Line, Column: e.Column, Server: server.Name, Severity: "error", Message: "the script does not compile: " + e.Error()})
			}
		}
	}
	return problems
}

// printProblems prints the problems of a configuration, and fails if there are errors.
func printProblems(out *console.Console, c config.Config) error {
	wrong := Errors(c)
	if out.JSON {
		if err := out.PrintJSON(append([]config.Problem{}, c.Problems...)); err != nil {
			return err
		}
	} else {
		for _, p := range c.Problems {
			printProblem(out, p)
		}
		found := "no problem"
		if n := len(c.Problems); n > 0 {
			found = console.Counted(len(wrong), "error") + ", " + console.Counted(n-len(wrong), "warning")
		}
		out.Say("%s: %s, %s", strings.Join(c.Files, ", "), console.Counted(len(c.Servers), "server"), found)
	}
	if len(wrong) > 0 {
		return &console.Error{Code: console.BadUsage}
	}
	return nil
}

// printProblem prints a problem with its place, and below it the fix.
func printProblem(out *console.Console, p config.Problem) {
	what, fix := prose.Advice(p.Message)
	p.Message, fix = what, cmp.Or(p.Fix, fix)
	text := p.Error()
	if p.Severity == "warning" {
		text = "warning: " + text
	}
	out.Say("%s", text)
	if fix != "" {
		out.SayBroken("    → ", out.Advise(fix))
	}
}

// Errors returns the problems that are not only warnings.
func Errors(c config.Config) []config.Problem {
	return slices.DeleteFunc(slices.Clone(c.Problems), func(p config.Problem) bool { return p.Severity == "warning" })
}

// NoteErrors prints the mistakes of the configuration on stderr, in few lines.
func NoteErrors(out *console.Console, c config.Config) {
	const most = 3
	wrong := Errors(c) // 'metarouter check' shows the warnings too
	if len(wrong) > most {
		out.Note("%d errors in %s: run 'metarouter check'", len(wrong), strings.Join(c.Files, ", "))
		return
	}
	for _, p := range wrong {
		out.Note("%s", p.Error())
	}
}

// InFlag says that err is about the file that a flag names.
func InFlag(flag string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no file %q", flag, path.Path)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// InConfig returns the error of a setting in the files of the configuration.
func InConfig(c config.Config, err error) error {
	return console.Usage(fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err))
}

// Server returns the entry of the named server. For a server that another node may have, the error
// says to run the command there; see [MayBeElsewhere].
func Server(c config.Config, name string) (config.Server, error) {
	i := slices.IndexFunc(c.Servers, func(s config.Server) bool { return s.Name == name })
	switch {
	case i >= 0:
		return c.Servers[i], nil
	case MayBeElsewhere(c, name):
		return config.Server{}, console.Usage(fmt.Errorf("%q is a server of another node; run this command on that machine", name))
	}
	return config.Server{}, console.Usage(UnknownName("server", name, ServerNames(c)))
}

// CheckProfile returns an error if the configuration lacks the profile, which is not "".
func CheckProfile(c config.Config, name string) error {
	if _, ok := c.Router.Profiles[name]; ok || name == "" {
		return nil
	}
	return console.Usage(UnknownName("profile", name, slices.Sorted(maps.Keys(c.Router.Profiles))))
}

// MayBeElsewhere reports whether a server of another node may have the name, such as "gpu@box".
func MayBeElsewhere(c config.Config, name string) bool {
	return c.Router.Cluster != nil && strings.Contains(name, "@")
}

// ServerNames returns the names of the entries.
func ServerNames(c config.Config) (names []string) {
	for _, s := range c.Servers {
		names = append(names, s.Name)
	}
	return names
}

// Similar returns the known name that a misspelled or shortened name may stand for.
func Similar(name string, known []string) (like string, ok bool) {
	if like, ok = prose.Nearest(name, known); ok || len(name) < 3 {
		return like, ok
	}
	longer := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, name) })
	if len(longer) != 1 {
		return "", false
	}
	return longer[0], true
}

// UnknownName returns the error for a name that is not one of the known names of that kind.
func UnknownName(kind, name string, known []string) error {
	if like, ok := Similar(name, known); ok {
		return fmt.Errorf("no %s is named %q; did you mean %q?", kind, name, like)
	}
	return fmt.Errorf("no %s is named %q; the %ss are %s", kind, name, kind, cmp.Or(plain.Line(prose.List(known, 20)), "none"))
}
