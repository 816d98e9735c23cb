package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
)

func (a *app) check() *cobra.Command {
	return a.jsonFlag(leaf("check", "Read the configuration and say every problem; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		cobra.NoArgs, func(context.Context, []string) error {
			paths, _, err := config.Find(a.configs)
			if err != nil {
				return usage(err)
			}
			c, err := config.Load(paths...)
			if p, ok := errors.AsType[config.Problem](err); ok {
				return a.printProblems(config.Config{Files: paths, Problems: []config.Problem{p}})
			} else if err != nil {
				return usage(err)
			}
			return a.printProblems(c)
		}))
}

func (a *app) printProblems(c config.Config) error {
	if a.json {
		if err := a.printJSON(append([]config.Problem{}, c.Problems...)); err != nil {
			return err
		}
	} else {
		for _, p := range c.Problems {
			fmt.Fprintln(a.stdout, p.Error())
		}
		fmt.Fprintf(a.stdout, "%s: %d servers, %d problems\n", strings.Join(c.Files, ", "), len(c.Servers), len(c.Problems))
	}
	if len(c.Problems) > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}
