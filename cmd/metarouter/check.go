package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
)

func newCheckCommand(env *environment) *cobra.Command {
	cmd := newCommand("check", "Report every problem of the configuration files; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		noArguments, func(context.Context, []string) error { return runCheck(env) })
	cmd.Long = `Reads the configuration and prints each mistake in it, with its line and column.

It starts no server. To find programs that are missing and servers that fail, run
'metarouter doctor'.`
	addJSONFlag(env, cmd)
	return cmd
}

func runCheck(env *environment) error {
	paths, named, err := config.Find(env.configs)
	if err != nil {
		return usage(err)
	}
	c, usable, err := readConfig(env, paths, named)
	if p, ok := errors.AsType[config.Problem](err); ok {
		return printProblems(env, config.Config{Files: paths, Problems: []config.Problem{p}})
	} else if err != nil {
		return usage(unreadable(err))
	}
	err = printProblems(env, c)
	if !usable && !env.json {
		env.say("%s is not trusted yet, so its variables, regular expressions and envFiles were not checked: read it, then run 'metarouter trust' before you use it", c.Files[0])
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

// printProblems prints the problems of a configuration, and fails if there are any.
func printProblems(env *environment, c config.Config) error {
	if env.json {
		if err := env.printJSON(append([]config.Problem{}, c.Problems...)); err != nil {
			return err
		}
	} else {
		for _, p := range c.Problems {
			env.say("%s", p.Error())
		}
		env.say("%s: %s, %s", strings.Join(c.Files, ", "), counted(len(c.Servers), "server"), counted(len(c.Problems), "problem"))
		if keys := c.RestartKeys(); len(keys) > 0 {
			env.say("an edit of these keys takes effect at the router's next start: %s", strings.Join(keys, ", "))
		}
	}
	if len(c.Problems) > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}
