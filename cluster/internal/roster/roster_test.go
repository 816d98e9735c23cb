package roster_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A trial is some routers of a cluster.
type trial struct {
	t       *testing.T
	network *linktest.Network
}

// A member is a router of a trial.
type member struct {
	*roster.Roster
	node *linktest.Node
	stop func() // ends it gracefully

	mu      sync.Mutex
	state   frame.Beating
	trusted []string
	counts  count.Counts
}

func (tr *trial) join(key *linktest.Key, name string, trusted ...*linktest.Key) *member {
	node := tr.network.Join(key)
	m := &member{node: node, state: frame.Beating{Revision: "1", Load: map[string]frame.ServerState{"gpu": {State: "ready"}}}}
	m.trust(trusted...)
	m.Roster = roster.New(roster.Options{
		Wire: node, Cluster: "metarouter", Node: name, Version: "1.2.3", Counts: &m.counts,
		Trusted: func(key string) bool { m.mu.Lock(); defer m.mu.Unlock(); return slices.Contains(m.trusted, key) },
		State:   func() frame.Beating { m.mu.Lock(); defer m.mu.Unlock(); return m.state },
	})
	node.Receive(m.Receive)
	ctx, cancel := context.WithCancel(tr.t.Context())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	m.stop = func() { cancel(); <-done }
	tr.t.Cleanup(m.stop)
	return m
}

func (m *member) trust(keys ...*linktest.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trusted = nil
	for _, k := range keys {
		m.trusted = append(m.trusted, k.Public)
	}
}

// alive returns the names of the peers that are alive.
func (m *member) alive() (names []string) {
	for _, p := range m.Peers() {
		if p.Alive {
			names = append(names, p.Node)
		}
	}
	return names
}

func (m *member) dropped() map[count.Reason]uint64 {
	_, _, dropped := m.counts.Now()
	return dropped
}

// bubble runs a test in a bubble of its own. Goroutines of members end with the test.
func bubble(t *testing.T, f func(t *testing.T, tr *trial)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
		f(t, &trial{t, linktest.New(t)})
	})
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// keys returns keys, sorted.
func keys(n int) []*linktest.Key {
	var all []*linktest.Key
	for range n {
		all = append(all, linktest.NewKey())
	}
	slices.SortFunc(all, func(a, b *linktest.Key) int {
		if a.Public < b.Public {
			return -1
		}
		return 1
	})
	return all
}

func TestLost(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(2)
		ann, box := tr.join(k[0], "ann", k[1]), tr.join(k[1], "box", k[0])
		settle(1500 * time.Millisecond)
		p, ok := ann.Find("box")
		if !ok || p.Revision != "1" || p.Load["gpu"].State != "ready" || p.Version != "1.2.3" || p.Address != box.node.Self() {
			t.Fatalf("%+v, %v", p, ok)
		}
		lost := ann.Lost(p.Address)
		if signal.IsClosed(lost) {
			t.Fatal("it is not lost")
		}
		box.node.Disconnect()
		killed := time.Now()
		<-lost
		if took := time.Since(killed); took > 3*time.Second || took < time.Second {
			t.Errorf("lost after %s", took)
		}
		if _, ok := ann.Find("box"); ok || !signal.IsClosed(ann.Lost(p.Address)) {
			t.Error("it is still there")
		}
		box.node.Connect()
		settle(1500 * time.Millisecond)
		if _, ok := ann.Find("box"); !ok || signal.IsClosed(ann.Lost(p.Address)) {
			t.Error("it did not come back")
		}
	})
}

func TestGracefulEnd(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(2)
		ann, box := tr.join(k[0], "ann", k[1]), tr.join(k[1], "box", k[0])
		settle(1500 * time.Millisecond)
		lost := ann.Lost(box.node.Self())
		box.mu.Lock()
		box.state.Leaving = true
		box.mu.Unlock()
		settle(time.Second)
		if p, ok := ann.Find("box"); !ok || !p.Leaving || signal.IsClosed(lost) {
			t.Fatal("calls under way of a router that leaves must go on")
		}
		box.stop()
		synctest.Wait()
		if !signal.IsClosed(lost) {
			t.Error("it waits for a router that said goodbye")
		}
	})
}

// A router that calls before it is heard gets the time to be heard.
func TestLostBeforeHeard(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		ann := tr.join(k[0], "ann", k[1], k[2])
		early := tr.network.Join(k[1])
		never := ann.Lost(frame.Address{Key: k[2].Public, Instance: "x"})
		a := early.Self()
		lost := ann.Lost(a)
		settle(2 * time.Second)
		if err := early.Send(frame.Address{}, frame.Header{Kind: frame.Beat, Beat: &frame.Beating{Cluster: "metarouter", Node: "early", Count: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		settle(1500 * time.Millisecond)
		if signal.IsClosed(lost) || !signal.IsClosed(never) {
			t.Error(signal.IsClosed(lost), signal.IsClosed(never))
		}
	})
}

func TestUntrusted(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		// The rogue has the lower key, and claims the name of another.
		ann, box := tr.join(k[1], "ann", k[2]), tr.join(k[2], "box", k[1])
		rogue := tr.join(k[0], "box", k[1], k[2])
		settle(1500 * time.Millisecond)
		if got := ann.alive(); !slices.Equal(got, []string{"box"}) {
			t.Errorf("alive: %q", got)
		}
		if p, _ := ann.Find("box"); p.Address != box.node.Self() {
			t.Error("a node that is not trusted took a name")
		}
		senders, counts := ann.Untrusted(), ann.dropped()
		if len(senders) != 1 || senders[0].Key != k[0].Public || senders[0].Node != "box" || counts[count.Untrusted] == 0 {
			t.Errorf("%+v, %+v", senders, counts)
		}
		ann.trust(k[2], k[0])
		ann.Trust()
		settle(time.Second)
		if got := ann.alive(); len(got) != 2 || rogue == nil {
			t.Errorf("alive: %q", got)
		}
		lost := ann.Lost(box.node.Self())
		ann.trust(k[0])
		ann.Trust()
		settle(time.Second)
		if got := ann.alive(); len(got) != 1 || !signal.IsClosed(lost) {
			t.Errorf("alive: %q", got)
		}
	})
}

// A forged beat of a trusted key, an old one and one of another time are worth nothing.
func TestForgedBeats(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		ann := tr.join(k[0], "ann", k[1])
		rogue := tr.network.Join(k[2])
		var old []byte
		send := func(key, signer *linktest.Key, count uint64, at time.Time) []byte {
			data, err := frame.Encode(frame.Header{
				Kind: frame.Beat, From: frame.Address{Key: key.Public, Instance: "box"}, Time: at.UnixMilli(),
				Beat: &frame.Beating{Cluster: "metarouter", Node: "box", Count: count},
			}, nil, signer)
			if err != nil {
				t.Fatal(err)
			}
			f, err := frame.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			ann.Receive(f)
			synctest.Wait()
			return data
		}
		send(k[1], k[2], 1, time.Now())
		if counts := ann.dropped(); len(ann.Peers()) != 0 || counts[count.Signature] != 1 {
			t.Errorf("a forged beat counts: %+v", counts)
		}
		send(k[1], k[1], 1, time.Now().Add(-2*time.Minute))
		if p := ann.Peers(); len(p) != 1 || p[0].Alive || p[0].Clock.Round(time.Second) != -2*time.Minute {
			t.Errorf("%+v", p)
		}
		renamed, err := frame.Encode(frame.Header{
			Kind: frame.Beat, From: frame.Address{Key: k[1].Public, Instance: "old"}, Time: time.Now().Add(-time.Hour).UnixMilli(),
			Beat: &frame.Beating{Cluster: "metarouter", Node: "before", Count: 1},
		}, nil, k[1])
		if err != nil {
			t.Fatal(err)
		}
		old = send(k[1], k[1], 1, time.Now())
		settle(time.Millisecond)
		again, _ := frame.Decode(renamed)
		ann.Receive(again)
		synctest.Wait()
		ann.Trust() // names all again
		if name := ann.Name(k[1].Public); name != "box" {
			t.Errorf("an old beat renames a node to %q", name)
		}
		if got := ann.alive(); len(got) != 1 {
			t.Errorf("alive: %q", got)
		}
		settle(4 * time.Second)
		f, _ := frame.Decode(old)
		ann.Receive(f)
		synctest.Wait()
		if counts := ann.dropped(); len(ann.alive()) != 0 || counts[count.Repeated] != 1 {
			t.Errorf("an old beat counts: %+v", counts)
		}
		_ = rogue
	})
}

// A flood of forged frames to one router, in the name of a node that lives, does not keep the beats of
// that node from being checked: they go to all.
func TestForgedFlood(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		ann := tr.join(k[0], "ann", k[1])
		receive := func(to frame.Address, signer *linktest.Key) {
			data, err := frame.Encode(frame.Header{
				Kind: frame.Beat, From: frame.Address{Key: k[1].Public, Instance: "box"}, To: to, Time: time.Now().UnixMilli(),
				Beat: &frame.Beating{Cluster: "metarouter", Node: "box", Count: 1},
			}, nil, signer)
			if err != nil {
				t.Fatal(err)
			}
			f, err := frame.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			ann.Receive(f)
		}
		for range 1000 {
			receive(ann.node.Self(), k[2])
		}
		receive(frame.Address{}, k[1])
		synctest.Wait()
		if got := ann.alive(); len(got) != 1 || ann.dropped()[count.Overflow] == 0 {
			t.Errorf("alive: %q, dropped %v", got, ann.dropped())
		}
	})
}

// Many frames of untrusted keys cost few verifications and little memory.
func TestFlood(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(2)
		ann := tr.join(k[0], "ann", k[1])
		box := tr.join(k[1], "box", k[0])
		for range 2000 {
			key := linktest.NewKey()
			data, err := frame.Encode(frame.Header{
				Kind: frame.Beat, From: frame.Address{Key: key.Public, Instance: "box"}, Time: time.Now().UnixMilli(),
				Beat: &frame.Beating{Cluster: "metarouter", Node: "box", Count: 1},
			}, nil, key)
			if err != nil {
				t.Fatal(err)
			}
			f, _ := frame.Decode(data)
			ann.Receive(f)
		}
		settle(1500 * time.Millisecond)
		senders, counts := ann.Untrusted(), ann.dropped()
		if len(senders) > 100 || counts[count.Untrusted] < 2000 {
			t.Errorf("%d senders, %+v", len(senders), counts)
		}
		if p, ok := ann.Find("box"); !ok || p.Address != box.node.Self() {
			t.Error("the flood hides a trusted node")
		}
	})
}

func TestNameConflict(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		a, b := tr.join(k[0], "box", k[1], k[2]), tr.join(k[1], "box", k[0], k[2])
		c := tr.join(k[2], "ann", k[0], k[1])
		settle(1500 * time.Millisecond)
		for _, m := range []*member{a, b, c} {
			first, second := m.Name(k[0].Public), m.Name(k[1].Public)
			if first != "box" || len(second) != len("box-xxxx") || !roster.IsName(second) {
				t.Errorf("%q, %q", first, second)
			}
		}
		a.node.Disconnect()
		settle(10 * time.Second)
		if got := c.Name(k[1].Public); got == "box" {
			t.Error("the name changes when the other one is lost")
		}
	})
}

func TestLatencyAndSilence(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		tr.network.Delay(20 * time.Millisecond)
		ann := tr.join(k[0], "ann", k[1], k[2])
		tr.join(k[1], "box", k[0])
		tr.join(k[2], "deaf") // does not trust ann
		settle(20 * time.Second)
		box, _ := ann.Find("box")
		deaf, _ := ann.Find("deaf")
		if box.Latency != 40*time.Millisecond || box.Silent || deaf.Latency != 0 || !deaf.Silent {
			t.Errorf("%+v %+v", box, deaf)
		}
	})
}

// A node with very many routers takes no room from others.
func TestManyRouters(t *testing.T) {
	bubble(t, func(t *testing.T, tr *trial) {
		k := keys(3)
		ann := tr.join(k[0], "ann", k[1], k[2])
		for range 1000 {
			if signal.IsClosed(ann.Lost(frame.Address{Key: k[2].Public, Instance: linktest.NewKey().Public})) {
				break
			}
		}
		box := tr.join(k[1], "box", k[0])
		settle(1500 * time.Millisecond)
		if _, ok := ann.Find("box"); !ok || len(ann.Peers()) != 1 {
			t.Errorf("%+v", ann.Peers())
		}
		if a := (frame.Address{Key: k[2].Public, Instance: "last"}); !signal.IsClosed(ann.Lost(a)) {
			t.Error("there is no bound")
		}
		settle(3 * time.Second) // these are all lost
		if a := (frame.Address{Key: k[2].Public, Instance: "last"}); signal.IsClosed(ann.Lost(a)) || box == nil {
			t.Error("lost routers keep others out")
		}
	})
}
