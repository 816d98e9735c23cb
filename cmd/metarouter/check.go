package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
)

func newCheckCommand(env *environment) *cobra.Command {
	cmd := newCommand("check", "Report every problem of the configuration files; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		noArguments, func(context.Context, []string) error { return runCheck(env) })
	cmd.Long = `Reads the configuration and prints each mistake in it, with its line and column.

Errors are what can't be used as it is written: the exit code is 2. Warnings are
what has no effect, such as an unknown key, or is probably not as you intended.

It starts no server. To find programs that are missing and servers that fail, run
'metarouter doctor'.`
	addJSONFlag(env, cmd)
	return cmd
}

func runCheck(env *environment) error {
	paths, named, err := findConfig(env)
	if none, ok := errors.AsType[*noConfigurationError](err); ok && env.json {
		return printProblems(env, config.Config{Problems: []config.Problem{none.problem("error")}})
	}
	if err != nil {
		return err
	}
	c, usable, err := readConfig(env, paths, named)
	if p, ok := errors.AsType[config.Problem](err); ok {
		return printProblems(env, config.Config{Files: paths, Problems: []config.Problem{p}})
	} else if err != nil {
		return usage(unreadable(err))
	}
	err = printProblems(env, c.Examine())
	if keys := c.RestartKeys(); len(keys) > 0 && !env.json {
		env.say("an edit of these keys takes effect at the router's next start: %s", strings.Join(keys, ", "))
	}
	if !usable {
		why := trust.Explain(c.Trusted(env.data), trustCommand(env, ""))
		env.note("note: its variables, regular expressions, envFiles and folders were not checked, and no router uses this text yet: %v", why)
	}
	return err
}

// counted returns "no problem", "1 problem" or "2 problems".
func counted(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printProblems prints the problems of a configuration, and fails if there are errors.
func printProblems(env *environment, c config.Config) error {
	wrong := errorsOf(c)
	if env.json {
		if err := env.printJSON(append([]config.Problem{}, c.Problems...)); err != nil {
			return err
		}
	} else {
		for _, p := range c.Problems {
			printProblem(env, p)
		}
		found := "no problem"
		if n := len(c.Problems); n > 0 {
			found = counted(len(wrong), "error") + ", " + counted(n-len(wrong), "warning")
		}
		env.say("%s: %s, %s", strings.Join(c.Files, ", "), counted(len(c.Servers), "server"), found)
	}
	if len(wrong) > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}

// errorsOf returns the problems that are not only warnings.
func errorsOf(c config.Config) []config.Problem {
	return slices.DeleteFunc(slices.Clone(c.Problems), config.Problem.IsWarning)
}

// printProblem prints where a problem is and what is wrong, and below it what to write.
func printProblem(env *environment, p config.Problem) {
	what, fix, _ := strings.Cut(p.Message, "; ")
	p.Message, fix = what, cmp.Or(p.Fix, fix)
	text := p.Error()
	if p.IsWarning() {
		text = "warning: " + text
	}
	env.say("%s", text)
	if fix != "" {
		columns, _ := env.page()
		fmt.Fprint(env.stdout, terminal.Lines(terminal.Hang("    → ", fix, columns)))
	}
}
