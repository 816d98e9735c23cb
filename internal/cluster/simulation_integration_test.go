package cluster_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// Each simulated node has so many servers with so many tools.
const (
	simulatedServers = 10
	simulatedTools   = 5
)

// TestSimulation has many nodes in one process learn each other's servers, at a real NATS server:
// METAROUTER_SIMULATED_NODES of them; if that is not set, 20, or 100 with METAROUTER_CLUSTER=cost. The
// figures are logged.
func TestSimulation(t *testing.T) {
	layer.Integration(t)
	count := 20
	if os.Getenv("METAROUTER_CLUSTER") == "cost" {
		count = 100
	}
	if text := os.Getenv("METAROUTER_SIMULATED_NODES"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 3 {
			t.Fatalf("METAROUTER_SIMULATED_NODES is %q; set it to a number from 3 on", text)
		}
	}
	s := natsserver.Start(t)
	relay := natsserver.Relay(t, s.Address(), natsserver.RelayOptions{})
	files, keys := make([]string, count), make([]string, count)
	for i := range count {
		files[i], keys[i] = newKey(t)
	}
	rogueFile, rogueKey := newKey(t)
	rogue := newRouter(t, zap.NewNop(), rogueFile, rogueKey)
	rogue.offer(simulatedTools, "github")
	rogueConfig := configOf(s, "node-0", keys...)
	rogue.run(t, rogueConfig)

	before := heap()
	nodes := make([]*router, count)
	began := time.Now()
	for i := range nodes {
		nodes[i] = newRouter(t, zap.NewNop(), files[i], keys[i])
		nodes[i].onlyCount, nodes[i].patience = true, 5*time.Minute
		var servers []string
		for n := range simulatedServers {
			servers = append(servers, fmt.Sprintf("server-%d", n))
		}
		nodes[i].offer(simulatedTools, servers...)
		c := configOf(s, fmt.Sprintf("node-%d", i), keys...)
		if i == count-1 {
			c.URLs = []string{relay.URL()}
		}
		nodes[i].run(t, c)
	}
	all := func(n int) func(r *router) {
		return func(r *router) {
			r.until(t, fmt.Sprintf("servers of %d other nodes", n-1), func() bool {
				servers, tools := r.known()
				return servers == (n-1)*simulatedServers && tools == servers*simulatedTools
			})
		}
	}
	each(nodes, all(count))
	if t.Failed() {
		each(append(nodes, rogue), func(r *router) { r.stop() })
		return
	}
	t.Logf("%d nodes with %d servers of %d tools agree after %s", count, simulatedServers, simulatedTools, time.Since(began).Round(time.Millisecond))
	t.Logf("memory per node, of a gateway without its registry: %d KiB", (heap()-before)/int64(count)>>10)

	first := s.Stats()
	began = time.Now()
	<-time.After(5 * time.Second) // the traffic over NATS at rest
	second := s.Stats()
	rest := time.Since(began).Seconds()
	t.Logf("at rest NATS takes %.0f messages and %.0f KiB a second, and sends %.0f messages and %.0f KiB; it uses %d MiB",
		float64(second.InMessages-first.InMessages)/rest, float64(second.InBytes-first.InBytes)/rest/1024,
		float64(second.OutMessages-first.OutMessages)/rest, float64(second.OutBytes-first.OutBytes)/rest/1024, second.Memory>>20)

	rest1, last := nodes[:count-1], nodes[count-1]
	relay.Cut()
	began = time.Now()
	each(rest1, all(count-1))
	t.Logf("a node that is cut off is gone from all after %s", time.Since(began).Round(time.Millisecond))
	last.until(t, "loss of all nodes", func() bool { servers, _ := last.known(); return servers == 0 })
	relay.Heal()
	began = time.Now()
	each(nodes, all(count))
	t.Logf("it is back at all after %s", time.Since(began).Round(time.Millisecond))

	for _, r := range nodes {
		r.mu.Lock()
		for name := range r.learned {
			expect.Equal(t, strings.HasPrefix(name, "github"), false, "%s of a node that is not trusted is used", name)
		}
		r.mu.Unlock()
		r.until(t, fmt.Sprintf("%d living nodes and one that is not trusted", count), func() bool {
			living, shown := 0, false
			for _, n := range r.Nodes() {
				if n.Trusted && n.Alive {
					living++
				}
				if shown = shown || n.Key == rogueKey; n.Key == rogueKey && (n.Trusted || len(n.Servers) > 0) {
					t.Errorf("%+v", n)
				}
			}
			return living == count && shown
		})
	}
	each(append(nodes, rogue), func(r *router) { r.stop() })
}

// each calls f for all routers at once.
func each(routers []*router, f func(*router)) {
	var g sync.WaitGroup
	for _, r := range routers {
		g.Go(func() { f(r) })
	}
	g.Wait()
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
