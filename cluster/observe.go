package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

const (
	// observeFor is how long Observe listens after it has connected: for each node to have beaten.
	observeFor = 1500 * time.Millisecond
	// observeWait is how long it waits for a connection, and the announcements.
	observeWait = 5 * time.Second
	// observePings bounds the pings that it sends.
	observePings = 1000
)

// Observe joins a cluster for about a second and a half, without announcing this node, and returns
// which nodes there are, this one first, and how the connection is. keyFile is that of this node's
// key, which is made if it does not exist. The error says why the cluster could not be asked at all;
// the report is filled in as far as possible then.
func Observe(ctx context.Context, c config.Cluster, keyFile, version string) ([]clusternode.Info, clusternode.Report, error) {
	n := New(Options{KeyFile: keyFile, Version: version})
	m, err := n.join(ctx, c)
	if err != nil {
		return nil, clusternode.Report{Problems: []string{err.Error()}}, err
	}
	defer m.link.Close()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	m.link.Receive(m.receive)
	running.Go(func() { m.roster.Run(ctx) })
	running.Go(func() { m.directory.Run(ctx) })
	running.Go(func() { m.followLink(ctx) })
	m.observe(ctx)
	nodes, report := m.nodes(), m.report()
	if ctx.Err() == nil {
		noteUnanswered(nodes)
	}
	if !report.Connected {
		err = errors.New("there is no connection to NATS")
		if why := m.link.State().Err; why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return nodes, report, err
}

// noteUnanswered notes the problem of trusted nodes that are alive and have not answered a ping.
func noteUnanswered(nodes []clusternode.Info) {
	for i := range nodes {
		if n := &nodes[i]; n.Alive && n.Trusted && !n.Self && n.Latency == 0 && n.Problem == "" {
			n.Problem = unanswered
		}
	}
}

// observe returns when all that can be seen was seen, or ctx ends.
func (m *member) observe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, observeWait)
	defer cancel()
	for !m.link.State().Connected {
		changed := m.link.Changed()
		if m.link.State().Connected {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	listened := time.After(observeFor)
	pings := time.NewTicker(observeFor / 5)
	defer pings.Stop()
	for done := false; !done || !m.directory.Watched() && m.directory.Problem() == ""; {
		select {
		case <-pings.C:
			m.roster.PingAll(observePings, observeFor)
		case <-listened:
			done = true
		case <-ctx.Done():
			return
		}
	}
}
