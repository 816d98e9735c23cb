package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
)

func newNodesCommand(files *configfile.Source) *cobra.Command {
	var urls string
	cmd := newCommand("nodes", "Show the routers of other machines, and whom this one trusts",
		`  metarouter nodes
  metarouter nodes --cluster nats://hub:4222
  metarouter nodes trust UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X --write`,
		noArguments, func(ctx context.Context, _ []string) error { return showNodes(ctx, files, urls, version) })
	cmd.Long = `Joins the cluster of the configuration for about a second and a half, and shows its
nodes: the routers of other machines, and this one. A node that is not trusted can
neither call a server of this one nor offer one. Compare its key with the one that
'metarouter nodes key' prints on that machine before you trust it.

It shares nothing itself, and needs no router that runs.`
	cmd.Flags().StringVar(&urls, "cluster", "", "Ask the NATS servers at these `URLs`, such as nats://hub:4222, with commas between them. Other programs can read them, so write a password into the configuration. (default \"cluster.urls\" of the configuration)")
	addJSONFlag(cmd, files.Console)
	for _, inner := range []*cobra.Command{newNodesKeyCommand(files.Console), newNodesTrustCommand(files)} {
		inner.ValidArgsFunction = cobra.NoFileCompletions
		cmd.AddCommand(inner)
	}
	return cmd
}

func newNodesKeyCommand(out *console.Console) *cobra.Command {
	cmd := newCommand("key", "Print the public key of this machine's node", "  metarouter nodes key",
		noArguments, func(context.Context, []string) error { return nodeKey(out) })
	cmd.Long = `Prints the public key by which other machines know the routers of this user. On those,
'metarouter nodes trust KEY --write' trusts it. The private key is node.nk in the folder
of your own configuration. It is made when it is needed first; who can read it is this node.`
	return cmd
}

func newNodesTrustCommand(files *configfile.Source) *cobra.Command {
	e := edit.Editor{Source: files}
	const example = "  metarouter nodes trust UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
	cmd := newCommand("trust KEY", "Trust the node of another machine", example+"\n"+example+" --write",
		exactly("name the public key of one node"), func(_ context.Context, args []string) error {
			return edit.TrustNode(&e, args[0])
		})
	cmd.Long = `Adds the public key of a node to "trusted" of "cluster" in the configuration in use. That
node may then call the servers that "share" names, and its servers may be used if "use"
names them. It has to trust this node, too. 'metarouter nodes key' prints a node's key there.
Take the key out of the file to end the trust.

` + aboutEdit
	addWriteFlag(cmd, &e)
	return cmd
}
