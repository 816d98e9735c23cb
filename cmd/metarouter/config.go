package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
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
			return cli.Plan(ctx, env.asking(), args[0], start)
		})
	cmd.Long = `Shows what would change if FILE replaced the configuration in use: the file
of --config, or else the file that metarouter finds by itself. While an edit of that
file waits for your approval, the running router's is compared.`
	addJSONFlag(cmd, env.Console)
	cmd.Flags().BoolVar(&start, "start", false, "Start the servers of FILE whose tools are not known, to count their tools. By default nothing is started.")
	return cmd
}
