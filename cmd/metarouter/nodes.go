package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

func newNodesCommand(files *configfile.Source) *cobra.Command {
	var urls string
	cmd := newCommand("nodes", noArguments, func(ctx context.Context, _ []string) error { return showNodes(ctx, files, urls) })
	cmd.Flags().StringVar(&urls, "cluster", "", "Ask the NATS servers at these `URLs`, such as nats://hub:4222, with commas between them. Other programs can read them, so write a password into the configuration. (default \"cluster.urls\" of the configuration)")
	addJSONFlag(cmd, files.Console)
	key := newCommand("nodes key", noArguments, func(context.Context, []string) error { return nodeKey(files.Console) })
	cmd.AddCommand(key, newNodesTrustCommand(files))
	return cmd
}

func newNodesTrustCommand(files *configfile.Source) *cobra.Command {
	e := edit.Editor{Source: files}
	cmd := newCommand("nodes trust", exactly("name the public key of one node"), func(_ context.Context, args []string) error {
		return edit.TrustNode(&e, args[0])
	})
	addWriteFlag(cmd, &e)
	return cmd
}

// nodeKey prints the public key of this machine's node.
func nodeKey(out *console.Console) error {
	file, err := configpath.NodeKey()
	if err != nil {
		return console.Usage(err)
	}
	id, err := clusternode.OpenIdentity(file)
	if err == nil {
		out.Say("%s", id.Key())
	}
	return err
}

// clusterOf returns the cluster that the configuration names, or urls if they are not "".
func clusterOf(ctx context.Context, files *configfile.Source, urls string) (config.Cluster, error) {
	c, err := files.Load(ctx)
	if _, none := errors.AsType[*configfile.NoConfiguration](err); none && urls != "" {
		c, err = config.Load()
	}
	if err != nil {
		return config.Cluster{}, err
	}
	configfile.NoteErrors(files.Console, c)
	if urls != "" {
		if err := c.Router.JoinCluster(urls); err != nil {
			return config.Cluster{}, console.Usage(fmt.Errorf("--cluster %w", err))
		}
	}
	if c.Router.Cluster == nil {
		return config.Cluster{}, console.Usage(fmt.Errorf(`this router is in no cluster; write "metarouter": {"cluster": {"urls": ["nats://hub:4222"]}} into %s, with the address of your NATS server, or add --cluster URL`, strings.Join(c.Files, ", ")))
	}
	return *c.Router.Cluster, nil
}

// showNodes joins the cluster at the URLs, or the cluster of the configuration if they are "", and prints its nodes.
func showNodes(ctx context.Context, files *configfile.Source, urls string) error {
	out := files.Console
	c, err := clusterOf(ctx, files, urls)
	if err != nil {
		return err
	}
	key, err := configpath.NodeKey()
	if err != nil {
		return console.Usage(err)
	}
	nodes, report, err := cluster.Observe(ctx, c, key, version)
	switch {
	case ctx.Err() != nil:
		return console.Interrupted
	case err != nil:
		return fmt.Errorf("the cluster %s can't be asked: %w", c.Name, err)
	case out.JSON:
		return out.PrintJSON(append([]clusternode.Info{}, nodes...))
	}
	if err := printNodes(files, nodes, time.Now()); err != nil {
		return err
	}
	for _, p := range report.Problems {
		out.Note("note: %s", p)
	}
	return nil
}

// maxNodeName is how many characters of a node's name are shown.
const maxNodeName = 40

func printNodes(files *configfile.Source, nodes []clusternode.Info, now time.Time) error {
	out := files.Console
	const maxServers = 60 // characters of the names of a node's servers
	rows := []console.Row{console.Titles("NODE", "TRUSTED", "?VERSION", "SERVERS", ">TOOLS", "?>LATENCY", "?SEEN", "KEY")}
	for _, n := range nodes {
		name, trusted, latency := cmp.Or(n.Node, "?"), "yes", ""
		if n.Self {
			name += " (this one)"
		} else if n.Latency > 0 {
			latency = fmt.Sprintf("%.1f ms", n.Latency)
		}
		if !n.Trusted {
			trusted = "no"
		}
		rows = append(rows, console.Texts(console.Cut(plain.Line(name), maxNodeName), trusted, n.Version,
			console.Cut(plain.Line(strings.Join(n.Servers, ", ")), maxServers), n.Tools, latency, seen(n, now), clusternode.Fingerprint(n.Key)))
	}
	if err := out.PrintRows(rows, func(i int) (lead, text string) {
		if i == 0 || !nodes[i-1].Trusted { // how to trust it is said below
			return "", ""
		}
		return "    → ", nodes[i-1].Problem
	}); err != nil {
		return err
	}
	noteUntrusted(out, nodes, files.Flags())
	return nil
}

func seen(n clusternode.Info, now time.Time) string {
	switch {
	case n.Self || n.Alive:
		return "now"
	case n.LastSeen.IsZero():
		return "never"
	}
	return max(now.Sub(n.LastSeen), 0).Round(time.Second).String() + " ago"
}

// noteUntrusted says how to trust the nodes that are not trusted. What it knows of them is not
// authenticated, so the command lines, which end with the flags, have nothing of it but keys.
func noteUntrusted(out *console.Console, nodes []clusternode.Info, flags string) {
	const most = 5
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n clusternode.Info) bool {
		return n.Trusted || n.Self || clusternode.CheckKey(n.Key) != nil
	})
	if len(nodes) > 0 {
		out.Note("nodes that are not trusted are ignored; compare a key with the one that 'metarouter nodes key' prints on that machine, then type:")
	}
	for _, n := range nodes[:min(len(nodes), most)] {
		out.Note("  %s: metarouter nodes trust %s --write%s", console.Cut(plain.Line(cmp.Or(n.Node, "?")), maxNodeName), n.Key, flags)
	}
	if more := len(nodes) - most; more > 0 {
		out.Note("  and %d more; 'metarouter nodes --json' has all keys", more)
	}
}
