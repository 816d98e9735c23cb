package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A Cluster is the router's cluster as it was seen.
type Cluster struct {
	Nodes  []clusternode.Info // this one first
	Report clusternode.Report
	Err    error // why the cluster could not be asked; nil if it could
}

// AskCluster looks at the cluster of the configuration, for [Case]. It takes 10 s at most, and asks
// nothing without a cluster: then it returns nil. This router has the version.
func AskCluster(ctx context.Context, c *config.Cluster, version string) *Cluster {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	key, err := configpath.NodeKey()
	if err != nil {
		return &Cluster{Err: err}
	}
	var seen Cluster
	seen.Nodes, seen.Report, seen.Err = cluster.Observe(ctx, *c, key, version)
	return &seen
}

// AddDenied adds the permissions that a running router, with the report r, lacks: calls need more.
func (c *Cluster) AddDenied(r clusternode.Report) {
	for _, p := range r.Problems {
		if strings.HasPrefix(p, ofPermissions) && !slices.Contains(c.Report.Problems, p) {
			c.Report.Problems = append(c.Report.Problems, p)
		}
	}
}

// ofPermissions begins the problems of permissions.
const ofPermissions = "The permissions of NATS"

// breaking are how problems begin that keep the cluster from working; ofNode begins those of nodes, which are named apart.
var breaking = []string{ofPermissions, "JetStream does not answer", "The NATS server has version"}

const ofNode = "The node "

// checkCluster checks the connection to the cluster, its nodes, and their servers.
func checkCluster(x *findings, c Case) {
	seen, wanted := c.Cluster, c.Config.Router.Cluster
	if seen == nil || wanted == nil {
		return
	}
	if seen.Err != nil {
		problem, fix := parted(seen.Err.Error())
		x.add(Broken, strings.TrimSuffix(problem, ".")+", so servers of other nodes are missing, and none is shared.", fix)
		return
	}
	for _, text := range seen.Report.Problems {
		severity := Warning
		if slices.ContainsFunc(breaking, func(beginning string) bool { return strings.HasPrefix(text, beginning) }) {
			severity = Broken
		}
		if problem, fix := parted(text); !strings.HasPrefix(text, ofNode) {
			x.add(severity, problem, fix)
		}
	}
	for _, n := range seen.Nodes {
		if n.Problem != "" && n.Trusted {
			problem, fix := parted(n.Problem)
			x.add(Warning, fmt.Sprintf("node %s: %s", plain.Line(n.Node), problem), fix)
		}
	}
	checkUsed(x, *wanted, seen.Nodes)
}

// parted divides a problem of the cluster, "What is wrong; what to do." or "What is wrong. What to do.",
// and has it begin as the other findings do.
func parted(text string) (problem, fix string) {
	text = plain.Line(text)
	problem, fix, found := strings.Cut(text, ". ")
	if !found {
		problem, fix, _ = strings.Cut(text, "; ")
	}
	if first, _, _ := strings.Cut(problem, " "); first != "JetStream" && first != "NATS" && problem != "" {
		problem = strings.ToLower(problem[:1]) + problem[1:]
	}
	return strings.TrimSuffix(problem, ".") + ".", strings.TrimSuffix(fix, ".")
}

// checkUsed says which patterns of "use" fit no server.
func checkUsed(x *findings, c config.Cluster, nodes []clusternode.Info) {
	var names []string
	there := "no trusted node shares a server"
	for _, n := range nodes {
		for _, server := range n.Servers {
			if n.Trusted && !n.Self {
				names = append(names, server+"@"+n.Node)
				there = "there are " + some(names)
			}
		}
	}
	for _, pattern := range c.Use {
		p, err := glob.Parse(pattern)
		if err != nil || slices.ContainsFunc(names, p.Match) {
			continue
		}
		x.add(Warning, fmt.Sprintf("%q in \"use\" of \"cluster\" fits no server of a trusted node that is alive; %s.", pattern, plain.Line(there)),
			"correct the pattern; or start the router of that node, and write the server into \"share\" there")
	}
}
