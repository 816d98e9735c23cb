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

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

func newNodesCommand(env *environment) *cobra.Command {
	var urls string
	cmd := newCommand("nodes", "Show the routers of other machines, and whom this one trusts",
		`  metarouter nodes
  metarouter nodes --cluster nats://hub:4222
  metarouter nodes trust UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X --write`,
		noArguments, func(ctx context.Context, _ []string) error { return runNodes(ctx, env, urls) })
	cmd.Long = `Joins the cluster of the configuration for about a second and a half, and shows its
nodes: the routers of other machines, and this one. A node that is not trusted can
neither call a server of this one nor offer one. Compare its key with the one that
'metarouter nodes key' prints on that machine before you trust it.

It shares nothing itself, and needs no router that runs.`
	cmd.Flags().StringVar(&urls, "cluster", "", "Ask the NATS servers at these `URLs`, such as nats://hub:4222, with commas between them. Other programs can read them, so write a password into the configuration. (default \"cluster.urls\" of the configuration)")
	addJSONFlag(env, cmd)
	for _, inner := range []*cobra.Command{newNodesKeyCommand(env), newNodesTrustCommand(env), newNodesUntrustCommand(env)} {
		inner.ValidArgsFunction = cobra.NoFileCompletions
		cmd.AddCommand(inner)
	}
	return cmd
}

func newNodesKeyCommand(env *environment) *cobra.Command {
	cmd := newCommand("key", "Print the public key of this machine's node", "  metarouter nodes key",
		noArguments, func(context.Context, []string) error {
			file, err := config.NodeKey()
			if err != nil {
				return exit.Usage(err)
			}
			key, err := cluster.Key(file)
			if err == nil {
				env.Say("%s", key)
			}
			return err
		})
	cmd.Long = `Prints the public key by which other machines know the routers of this user. On those,
'metarouter nodes trust KEY --write' trusts it. The private key is node.nk in the folder
of your own configuration. It is made when it is needed first; who can read it is this node.`
	return cmd
}

// clusterOf returns the cluster that the configuration names, or urls if they are not "".
func clusterOf(ctx context.Context, env *environment, urls string) (config.Cluster, error) {
	c, err := loadConfig(ctx, env)
	if _, none := errors.AsType[*configfile.NoConfiguration](err); none && urls != "" {
		c, err = config.Load()
	}
	if err != nil {
		return config.Cluster{}, err
	}
	configfile.NoteErrors(env.Console, c)
	if urls != "" {
		if err := c.Router.JoinCluster(urls); err != nil {
			return config.Cluster{}, exit.Usage(fmt.Errorf("--cluster %w", err))
		}
	}
	if c.Router.Cluster == nil {
		return config.Cluster{}, exit.Usage(fmt.Errorf(`this router is in no cluster; write "metarouter": {"cluster": {"urls": ["nats://hub:4222"]}} into %s, with the address of your NATS server, or add --cluster URL`, strings.Join(c.Files, ", ")))
	}
	return *c.Router.Cluster, nil
}

func runNodes(ctx context.Context, env *environment, urls string) error {
	c, err := clusterOf(ctx, env, urls)
	if err != nil {
		return err
	}
	file, err := config.NodeKey()
	if err != nil {
		return exit.Usage(err)
	}
	nodes, report, err := cluster.Observe(ctx, c, file, version)
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	if err != nil {
		return fmt.Errorf("the cluster %s can't be asked: %w", c.Name, err)
	}
	if env.JSON {
		return env.PrintJSON(append([]cluster.NodeInfo{}, nodes...))
	}
	if err := printNodes(env, nodes, time.Now()); err != nil {
		return err
	}
	noteUnheard(env, nodes, c)
	for _, p := range report.Problems {
		// Nodes that are not trusted are named already.
		if !slices.ContainsFunc(report.Untrusted, func(key string) bool { return strings.Contains(p, key) }) {
			env.Note("note: %s", p)
		}
	}
	return nil
}

// maxNodeName is how many characters of a node's name are shown.
const maxNodeName = 40

// printNodes prints a table of the nodes, and how to trust those that are not trusted.
func printNodes(env *environment, nodes []cluster.NodeInfo, now time.Time) error {
	const maxServers = 60 // characters of the names of a node's servers
	head := func(text string) terminal.Cell { return terminal.Cell{Text: text, Colour: terminal.Bold} }
	number := func(c terminal.Cell) terminal.Cell { c.Right = true; return c }
	spare := func(c terminal.Cell) terminal.Cell { c.Spare = true; return c }
	rows := []terminal.Row{{head("NODE"), head("TRUSTED"), spare(head("VERSION")), head("SERVERS"), number(head("TOOLS")), spare(number(head("LATENCY"))), spare(head("SEEN")), head("KEY")}}
	for _, n := range nodes {
		name, trusted, latency := cmp.Or(n.Node, "?"), terminal.Cell{Text: "yes"}, ""
		if n.Self {
			name += " (this one)"
		} else if n.Latency > 0 {
			latency = fmt.Sprintf("%.1f ms", n.Latency)
		}
		if !n.Trusted {
			trusted = terminal.Cell{Text: "no", Colour: terminal.Yellow}
		}
		rows = append(rows, terminal.Row{
			{Text: terminal.Cut(plain.Line(name), maxNodeName)}, trusted, {Text: plain.Line(n.Version), Spare: true}, {Text: terminal.Cut(plain.Line(strings.Join(n.Servers, ", ")), maxServers)},
			{Text: fmt.Sprint(n.Tools), Right: true}, {Text: latency, Right: true, Spare: true}, {Text: seen(n, now), Spare: true}, {Text: cluster.Fingerprint(n.Key)},
		})
	}
	if err := env.PrintRows(rows, func(i int) string {
		if i == 0 || nodes[i-1].Problem == "" || !nodes[i-1].Trusted { // how to trust it is said below
			return ""
		}
		columns, _ := env.Page()
		return terminal.Lines(terminal.Hang("    → ", nodes[i-1].Problem, columns))
	}); err != nil {
		return err
	}
	noteUntrusted(env, nodes)
	return nil
}

// seen says when a node was heard last.
func seen(n cluster.NodeInfo, now time.Time) string {
	switch {
	case n.Self || n.Alive:
		return "now"
	case n.LastSeen.IsZero():
		return "never"
	}
	return max(now.Sub(n.LastSeen), 0).Round(time.Second).String() + " ago"
}

// noteUnheard says which trusted keys no node has that is there.
func noteUnheard(env *environment, nodes []cluster.NodeInfo, c config.Cluster) {
	const most = 5
	var keys []string
	for _, key := range c.Trusted {
		if !slices.ContainsFunc(nodes, func(n cluster.NodeInfo) bool { return n.Key == key }) {
			keys = append(keys, cluster.Fingerprint(key))
		}
	}
	if len(keys) == 0 {
		return
	}
	text := strings.Join(keys[:min(len(keys), most)], ", ")
	if more := len(keys) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	env.Note("trusted, but not there: %s; look whether that router runs, and joins the cluster %q", text, c.Name)
}

// noteUntrusted says how to trust the nodes that are not trusted. What it knows of them is not
// authenticated, so the command lines have nothing of it but keys.
func noteUntrusted(env *environment, nodes []cluster.NodeInfo) {
	const most = 5
	count := 0
	for _, n := range nodes {
		if n.Trusted || n.Self || config.CheckNodeKey(n.Key) != nil {
			continue
		}
		if count++; count == 1 {
			env.Note("nodes that are not trusted are ignored; compare a key with the one that 'metarouter nodes key' prints on that machine, then type:")
		}
		if count <= most {
			env.Note("  %s: metarouter nodes trust %s --write%s", terminal.Cut(plain.Line(cmp.Or(n.Node, "?")), maxNodeName), n.Key, env.files.Flags())
		}
	}
	if more := count - most; more > 0 {
		env.Note("  and %d more; 'metarouter nodes --json' has all keys", more)
	}
}
