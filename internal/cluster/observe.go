package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// observeWait is how long Observe waits for a connection, and the announcements; measureFor is how long
	// it waits for the first latencies of nodes.
	observeWait  = 5 * time.Second
	observeEvery = 10 * time.Millisecond
	measureFor   = 1500 * time.Millisecond
	// tryWait is how long it waits for streams to nodes, tryAtOnce of them at a time, and observeMost
	// in all.
	tryWait     = 2 * time.Second
	tryAtOnce   = 8
	observeMost = 200
)

// Observe joins a cluster for a moment, without announcing this node, and returns
// which nodes there are, this one first, and how the connection is. keyFile is the file of this node's
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
	waiting, stop := context.WithTimeout(ctx, observeWait)
	defer stop()
	if signal.Poll(waiting, observeEvery, func() bool { return m.link.State().Connected }) {
		running.Go(func() { m.directory.Run(ctx) })
		running.Go(func() { m.roster.Run(ctx) })
		running.Go(func() { m.followLink(ctx) })
		m.observe(waiting)
	}
	nodes, report := m.nodes(), m.report()
	if !report.Connected {
		err = errors.New("there is no connection to NATS")
		if why := m.link.State().Err; why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return nodes, report, err
}

// observe returns when all that can be seen was seen, or ctx ends.
func (m *member) observe(ctx context.Context) {
	began := time.Now()
	if signal.Poll(ctx, observeEvery, func() bool {
		watched, problem := m.directory.State()
		return m.present.Load() != nil && (watched || problem != "") && !m.roster.Unproven() && (m.measured() || time.Since(began) > measureFor)
	}) {
		m.tryAll(ctx)
	}
}

// measured reports whether the latency of each living node is known.
func (m *member) measured() bool {
	return !slices.ContainsFunc(m.roster.Peers(), func(p roster.Peer) bool { return p.Alive && p.Latency == 0 })
}

// tryAll opens a stream to each living node, and closes it: so a node that does not trust this one is
// found.
func (m *member) tryAll(ctx context.Context) {
	p := m.present.Load()
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	var trying errgroup.Group
	trying.SetLimit(tryAtOnce) // each try ends with ctx
	tried := map[string]bool{m.key: true}
	for _, peer := range m.roster.Peers() {
		if key := peer.Address.Key; !peer.Alive || tried[key] || len(tried) > observeMost {
			continue
		}
		tried[peer.Address.Key] = true
		trying.Go(func() error {
			c, err := p.endpoint.Dial(ctx, peer.Address, nil)
			m.noteDial(peer.Address, err)
			if err == nil {
				c.Close()
			}
			return nil
		})
	}
	trying.Wait()
}
