package natsserver

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A Cluster is several servers with routes between them.
type Cluster struct {
	t       testing.TB
	servers []*Server
	routes  map[[2]int]*Relayed // between two servers, the lower number first
}

// StartCluster starts n servers, and waits until they have elected a leader.
func StartCluster(t testing.TB, n int, options ...Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, routes: make(map[[2]int]*Relayed)}
	for i := range n {
		c.servers = append(c.servers, newServer(t, fmt.Sprintf("n%d", i), only(t, options)))
	}
	for i, s := range c.servers {
		t.Cleanup(s.cleanup)
		for j := range n {
			if i == j {
				continue
			}
			key := [2]int{min(i, j), max(i, j)}
			if c.routes[key] == nil { // the later one connects to the earlier
				c.routes[key] = Relay(t, c.servers[key[0]].route, RelayOptions{})
			}
			if i > j {
				s.routes = append(s.routes, c.routes[key].Address())
			}
		}
	}
	c.servers[0].routes = []string{"127.0.0.1:1"} // a port without a listener
	for _, s := range c.servers {
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.servers {
		s.ready()
	}
	return c
}

// URLs are where clients connect to, in the order of the servers.
func (c *Cluster) URLs() (urls []string) {
	for _, s := range c.servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// Server returns a server, counted from 0.
func (c *Cluster) Server(i int) *Server { return c.servers[i] }

// Kill ends a server at once; see [Server.Kill].
func (c *Cluster) Kill(i int) { c.t.Helper(); c.servers[i].Kill() }

// Restart starts a server again; see [Server.Restart].
func (c *Cluster) Restart(i int) { c.t.Helper(); c.servers[i].Restart() }

// Stop halts the process of a server until Continue; see [Server.Stop].
func (c *Cluster) Stop(i int) { c.t.Helper(); c.servers[i].Stop() }

// Continue ends Stop.
func (c *Cluster) Continue(i int) { c.t.Helper(); c.servers[i].Continue() }

// Leader waits for a leader of a stream, or of all of JetStream if stream is "", and returns its
// number. It asks servers that run; those that are cut off may know an old one.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, s := range c.servers {
			if process, _ := s.running(); process == nil {
				continue
			}
			name := s.leader(stream)
			if i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.name == name }); i >= 0 {
				return i
			}
		}
	}
	c.t.Fatalf("waited in vain for a leader of %q", stream)
	return -1
}

// Partition cuts the servers of the group off from the others, until Heal. Clients reach both.
func (c *Cluster) Partition(group ...int) {
	for pair, route := range c.routes {
		if slices.Contains(group, pair[0]) != slices.Contains(group, pair[1]) {
			route.Cut()
		}
	}
}

// Heal ends Partition.
func (c *Cluster) Heal() {
	for _, route := range c.routes {
		route.Heal()
	}
}
