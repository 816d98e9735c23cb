package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/plan"
	"github.com/mcp-metarouter/metarouter/config"
)

func newCheckCommand(files *configfile.Source) *cobra.Command {
	cmd := newCommand("check", "Report every problem of the configuration files; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		noArguments, func(context.Context, []string) error { return files.Check() })
	cmd.Long = `Reads the configuration and prints each mistake in it, with its line and column.

Errors are what can't be used as it is written: the exit code is 2. Warnings are
what has no effect, such as an unknown key, or is probably not as you intended.

It starts no server. To find programs that are missing and servers that fail, run
'metarouter doctor'.`
	addJSONFlag(cmd, files.Console)
	return cmd
}

func newSchemaCommand(out *console.Console) *cobra.Command {
	return newCommand("schema", "Print the JSON Schema of the configuration, for editors",
		"  metarouter schema > mcp.schema.json", cobra.NoArgs,
		func(context.Context, []string) error {
			_, err := out.Out.Write(config.Schema())
			return err
		})
}

func newPlanCommand(env *environment) *cobra.Command {
	var start bool
	cmd := newCommand("plan FILE", "Show what would change if FILE replaced the configuration in use",
		`  metarouter plan new.mcp.json
  metarouter plan new.mcp.json --start --json`,
		arguments(1, 1, "name one file"), func(ctx context.Context, args []string) error {
			now, waits, done, err := configInUse(ctx, env, args[0], start)
			if err != nil || done {
				return err
			}
			return plan.Show(ctx, &env.local, now, waits, args[0], start)
		})
	cmd.Long = `Shows what would change if FILE replaced the configuration in use: the file
of --config, or else the file that metarouter finds by itself. While an edit of that
file waits for your approval, the running router's is compared.`
	addJSONFlag(cmd, env.Console)
	cmd.Flags().BoolVar(&start, "start", false, "Start the servers of FILE whose tools are not known, to count their tools. By default nothing is started.")
	return cmd
}

// configInUse returns the configuration that FILE is compared with. While an edit of it waits
// for approval, the running router has the one in use, so that it makes the comparison, and
// done is true. If none runs, the configuration is the edit that waits.
func configInUse(ctx context.Context, env *environment, file string, start bool) (c config.Config, waits *config.Untrusted, done bool, err error) {
	if env.running != nil {
		noteEdit(env)
		return env.running.router.Config(), nil, false, nil
	}
	c, named, err := env.files.Locate()
	if err != nil || named {
		return c, nil, false, err
	}
	waits, _ = errors.AsType[*config.Untrusted](c.Trusted(env.files.Data))
	if waits == nil || !waits.Before {
		return c, nil, false, nil
	}
	path, err := filepath.Abs(file)
	if err != nil || start { // a router starts nothing for another process
		return c, waits, false, err
	}
	asker := *env
	asker.args = []string{"plan", "--json=" + strconv.FormatBool(env.JSON), "--", path}
	done, err = askRunningRouter(ctx, &asker, c, false)
	return c, waits, done, err
}
