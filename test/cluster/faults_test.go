//go:build linux

package cluster

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A field is what the load and the faults need: three NATS servers, a gateway without servers, two
// nodes that have the server bank, and a gateway to be killed. Node c reaches NATS by a relay.
type field struct {
	t          testing.TB
	hub        *natsserver.Cluster
	relay      *natsserver.Relayed
	a, b, c, d *node
	ledger     string
}

// The servers as the gateways expose them.
const (
	onB = "bank-at-b"
	onC = "bank-at-c"
)

func newField(t testing.TB, slow natsserver.RelayOptions) *field {
	t.Helper()
	f := &field{t: t, ledger: filepath.Join(t.TempDir(), "ledger")}
	f.hub = natsserver.StartCluster(t, 3)
	urls := f.hub.URLs()[:2] // those that stay together in the partition
	f.relay = natsserver.Relay(t, f.hub.Server(2).Address(), slow)
	f.a = newNode(t, "a", urls, entries{})
	f.b = newNode(t, "b", urls, entries{"bank": bank("b", f.ledger)})
	f.c = newNode(t, "c", []string{f.relay.URL()}, entries{"bank": bank("c", f.ledger)})
	f.d = newNode(t, "d", urls, entries{})
	f.b.cluster["share"], f.c.cluster["share"] = []string{"*"}, []string{"*"}
	all := []*node{f.a, f.b, f.c, f.d}
	trustEachOther(all...)
	for _, n := range all {
		n.start()
	}
	for _, gateway := range []*node{f.a, f.d} {
		gateway.lists(onB+"__"+charge, onC+"__"+charge)
	}
	return f
}

// A fault is a fault that comes, stays for a while, and goes.
type fault struct {
	name       string
	come, goes func() // goes may be nil
	stays      time.Duration
	servers    []string // whose calls may fail meanwhile
	charges    []string // servers whose charges may fail meanwhile
	brief      bool     // if no gateway misses the node meanwhile, only charges may fail
}

// faults returns the faults in their order. Calls of a server may fail while its node is down, and
// charges that were under way may fail.
func (f *field) faults(stays time.Duration) []fault {
	leader := 0
	return []fault{
		{"kill -9 and start of a node", func() { f.b.kill(); f.b.start() }, nil, stays, []string{onB}, nil, true},
		{"kill -9 of an executing node", f.b.kill, f.b.start, stays, []string{onB}, nil, false},
		{"SIGSTOP of an executing node", func() { f.c.signal(syscall.SIGSTOP) }, func() { f.c.signal(syscall.SIGCONT) }, max(stays, 8*time.Second), []string{onC}, nil, false},
		{"kill -9 of the NATS leader", func() {
			leader = f.hub.Leader("KV_metarouter-test")
			f.hub.Kill(leader)
		}, func() { f.hub.Restart(leader) }, stays, []string{onC}, []string{onB}, false}, // node c may have no other
		{"a node is cut off from NATS", f.relay.Cut, f.relay.Heal, stays, []string{onC}, nil, false},
		{"a NATS server is cut off", func() { f.hub.Partition(2) }, f.hub.Heal, stays, []string{onC}, nil, false},
		{"rolling restart", func() { f.b.restart(); f.c.restart() }, nil, stays, []string{onB, onC}, nil, false},
	}
}

// heals is how long after the end of a fault, and the first call of each server, further calls may still fail.
const heals = 5 * time.Second

// missed is how soon a node has to listen again for others not to miss it: half of the time after
// which they do, since it has to connect to NATS too.
const missed = 1500 * time.Millisecond

// TestFaults holds the cluster to its promises under load while processes and connections fail.
func TestFaults(t *testing.T) {
	f := newField(t, natsserver.RelayOptions{})
	faults := f.faults(2 * time.Second)
	faults = []fault{faults[0], faults[3], faults[6]} // 20 seconds
	if long {
		faults = f.faults(10 * time.Second)
	}
	f.run(2*time.Second, faults)
}

// The same holds where a node's connection is slow.
func TestSlowNetwork(t *testing.T) {
	f := newField(t, natsserver.RelayOptions{Delay: 20 * time.Millisecond, StallShare: 0.01, Stall: 200 * time.Millisecond})
	var faults []fault
	if long {
		faults = f.faults(10 * time.Second)
	}
	f.run(3*time.Second, faults)
}

// run runs the load: for a while without faults, then with each fault, and a calm time after each in
// which calls have to heal. It kills a gateway at the end, and checks the outcomes.
func (f *field) run(first time.Duration, faults []fault) {
	f.t.Helper()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	main := &load{name: "a", client: f.a.client(), servers: []string{onB, onC}, rate: rate}
	other := &load{name: "d", client: f.d.client(), servers: []string{onB, onC}, rate: rate / 10}
	ended := make(chan struct{})
	go func() { defer close(ended); main.run(ctx) }()
	otherEnded := make(chan struct{})
	go func() { defer close(otherEnded); other.run(ctx) }()

	time.Sleep(first)
	var disturbances []disturbance
	for _, fault := range faults {
		d := disturbance{from: time.Now(), servers: fault.servers, charges: fault.charges}
		before := f.losses()
		fault.come()
		lost := f.losses() > before
		soon := time.Since(d.from) < missed
		if fault.brief && soon && lost {
			f.t.Errorf("%s: the node was missed at once", fault.name)
		}
		time.Sleep(fault.stays)
		if fault.goes != nil {
			fault.goes()
		}
		f.healed()
		d.to = time.Now().Add(heals)
		time.Sleep(heals + time.Second)
		if fault.brief && soon && f.losses() == before {
			d.servers, d.charges = nil, d.servers
		}
		disturbances = append(disturbances, d)
	}
	killed := time.Now()
	f.d.kill()
	end()
	<-ended
	<-otherEnded
	time.Sleep(late) // what runs late has run now

	ledger := readLedger(f.t, f.ledger)
	reportBroken(f.t, check(main.outcomes, only(ledger, "a-"), disturbances))
	gateway := disturbance{from: killed.Add(-time.Second), to: killed.Add(time.Minute), gateway: true}
	reportBroken(f.t, check(other.outcomes, only(ledger, "d-"), append(disturbances, gateway)))
}

// healed waits until both gateways call both servers again.
func (f *field) healed() {
	for _, gateway := range []*node{f.a, f.d} {
		probe := &load{client: gateway.client()}
		for _, server := range []string{onB, onC} {
			mcptest.WaitFor(f.t, server+" over "+gateway.name, func() bool { return probe.call("probe", server, read, 0).status == succeeded })
		}
	}
}

// losses is how often the gateways have found that the server of node b is gone.
func (f *field) losses() (n int) {
	for _, gateway := range []*node{f.a, f.d} {
		for line := range strings.Lines(gateway.process.Stderr()) {
			if strings.Contains(line, "a server of another node is gone") && strings.Contains(line, `"bank@b"`) {
				n++
			}
		}
	}
	return n
}
