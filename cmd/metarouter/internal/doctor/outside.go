package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
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

// breaking are how problems begin that keep the cluster from working; ofNode begins problems of nodes, which are named apart.
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

// An Issuer is the answer of an identity provider of "http.oauth".
type Issuer struct {
	URL    string
	Keys   int   // that can verify tokens
	Others int   // keys that can't
	Err    error // why its metadata or keys can't be read, or it can't be asked about tokens; nil if it works
}

// AskIssuers reads the metadata and the keys of the issuers of the configuration, all at once,
// for [Case]. It takes 10 s at most, and asks nothing without issuers.
func AskIssuers(ctx context.Context, h config.HTTP) []Issuer {
	var asking sync.WaitGroup
	all := make([]Issuer, len(h.Issuers))
	for n, i := range h.Issuers {
		if i.URL == "" { // its mistake is a problem of the configuration
			continue
		}
		asking.Go(func() {
			a := &all[n]
			a.URL = i.URL
			a.Keys, a.Others, a.Err = bearer.Probe(ctx, bearer.Issuer{
				URL: i.URL, KeysURL: i.KeysURL, ClientID: i.ClientID, ClientSecret: i.ClientSecret, Introspect: i.Introspect && i.ClientSecret != "",
			})
		})
	}
	asking.Wait()
	return slices.DeleteFunc(all, func(i Issuer) bool { return i.URL == "" })
}

// checkIssuers says of each issuer whether tokens of it can be verified.
func checkIssuers(x *findings, c Case) {
	for _, i := range c.Issuers {
		fault := func(what, fix string) {
			x.add(Broken, fmt.Sprintf("the issuer %s of \"http.oauth\" %s, so its users are not let in.", i.URL, what), fix)
		}
		switch {
		case errors.Is(i.Err, oauth.ErrUnreachable), errors.Is(i.Err, context.DeadlineExceeded):
			fault(fmt.Sprintf("can't be reached (%v)", i.Err), "check its \"url\" and the network: this machine must reach it, also through a proxy (HTTPS_PROXY)")
		case i.Err != nil && i.Keys+i.Others > 0: // its keys could be read
			fault(fmt.Sprintf("can't be asked about tokens that are no JWT (%v)", i.Err),
				"write the \"clientId\" and \"clientSecret\" of a client that the issuer lets introspect tokens, or remove \"introspect\" if its tokens are JWTs")
		case i.Err != nil:
			fault(fmt.Sprintf("gives tokens that can't be verified (%v)", i.Err),
				"write its \"url\" byte for byte as its tokens name it in \"iss\"; if its metadata are elsewhere, write the address of its keys into \"jwksUrl\"")
		case i.Keys == 0:
			fault(fmt.Sprintf("has no key that can verify tokens (%d others)", i.Others),
				"let it sign access tokens with RS256, ES256 or another asymmetric algorithm; an RSA key needs 2048 bits")
		default:
			x.add(Note, fmt.Sprintf("the issuer %s of \"http.oauth\" answers; it has %s that can verify tokens.", i.URL, prose.Count(i.Keys, "key")), "")
		}
	}
}
