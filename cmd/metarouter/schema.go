package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
)

func newSchemaCommand(env *environment) *cobra.Command {
	return newCommand("schema", "Print the JSON Schema of the configuration, for editors",
		"  metarouter schema > mcp.schema.json", cobra.NoArgs,
		func(context.Context, []string) error {
			_, err := env.Out.Write(config.Schema())
			return err
		})
}
