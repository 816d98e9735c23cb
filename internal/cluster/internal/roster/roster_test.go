package roster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A world is a roster, and other nodes as the directory shows them.
type world struct {
	*Roster
	t       *testing.T
	trusted []string

	mu    sync.Mutex // guards the fields below
	pings []call
	slow  bool // our own pings are not answered
}

// sent returns the pings that were sent since it was called last.
func (w *world) sent() (all []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.pings = w.pings, nil
	return all
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Roster = New(Options{
		Key: "UOWN", Cluster: "office", Node: "ann", Trusted: func(key string) bool { return slices.Contains(w.trusted, key) }, Log: zap.NewNop(),
		Ping: func(instance, token string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if instance != "" {
				w.pings = append(w.pings, call{instance, token})
			} else if !w.slow {
				go w.Answered(token, true)
			}
			return true
		},
	})
	go w.Run(t.Context())
	return w
}

// A node signs announcements.
type node struct {
	id *clusternode.Identity
	a  directory.Announcement
}

func (w *world) node(name string, trusted bool) *node {
	w.t.Helper()
	id, err := clusternode.OpenIdentity(filepath.Join(w.t.TempDir(), "node.nk"))
	expect.OK(w.t, err)
	if trusted {
		w.trusted = append(w.trusted, id.Key())
	}
	return &node{id, directory.Announcement{Protocol: directory.Protocol, Cluster: "office", Key: id.Key(), Router: "R", Instance: "I" + name, Node: name, Version: "1", Revision: 1}}
}

func (n *node) value() []byte {
	text, _ := json.Marshal(n.a)
	signature, _ := n.id.Sign(append([]byte("metarouter announcement 2\n"), text...))
	return append([]byte(base64.StdEncoding.EncodeToString(signature)+"\n"), text...)
}

func (w *world) announce(n *node, stored bool) { w.Announced(n.a.Key, n.a.Router, n.value(), stored) }
func (w *world) load(n *node)                  { w.Loaded(n.a.Key, n.a.Router, []byte("{}"), false, time.Now()) }

// alive returns the names of the nodes that are alive.
func (w *world) alive() string {
	var names []string
	for _, p := range w.Peers() {
		if p.Alive {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

func (w *world) expect(want string) {
	w.t.Helper()
	synctest.Wait()
	expect.Equal(w.t, w.alive(), want, "alive")
}

// beat has nodes put a load each second.
func (w *world) beat(seconds int, nodes ...*node) {
	for range seconds {
		for _, n := range nodes {
			w.load(n)
		}
		time.Sleep(time.Second)
	}
}

// A router whose load stops is pinged, and lost without an answer, within 3 s.
func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		box, tower := w.node("box", true), w.node("tower", true)
		w.announce(box, false)
		w.announce(tower, false)
		w.expect("box tower")
		w.beat(5, box, tower)
		w.expect("box tower")
		w.load(tower) // box has died
		for range 3 {
			time.Sleep(time.Second - 50*time.Millisecond)
			w.load(tower)
		}
		w.expect("tower")
		w.load(box) // it is back
		w.expect("box tower")

		w.sent() // JetStream is away: only pings show that they live
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			for _, p := range w.sent() {
				w.Answered(p.token, true)
			}
		}
		w.expect("box tower")
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		for _, p := range w.sent() {
			w.Answered(p.token, p.instance == "Itower") // box does not answer
		}
		w.expect("tower")
		tower.a.Leaving, tower.a.Revision = true, 2
		w.announce(tower, false)
		w.load(tower)
		w.expect("")
	})
}

// A stored announcement counts when the router answers a ping, or puts a load.
func TestStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		live, gone, silent, busy := w.node("live", true), w.node("gone", true), w.node("silent", true), w.node("busy", true)
		last := time.Now().Add(-time.Hour) // when each has put its last load
		rogue := w.node("rogue", false)
		for _, n := range []*node{live, gone, silent, busy, rogue} {
			put := last
			if n == silent { // a clock that is ahead keeps no router from being settled
				put = time.Now().Add(time.Hour)
			}
			w.announce(n, true)
			w.Loaded(n.a.Key, n.a.Router, []byte("{}"), true, put)
		}
		w.expect("")
		w.load(busy)
		time.Sleep(2 * checkEvery)
		synctest.Wait()
		for _, p := range w.sent() {
			switch p.instance {
			case "Ilive":
				w.Answered(p.token, true)
			case "Igone":
				w.Answered(p.token, false)
			}
		}
		w.expect("busy live")
		expect.Equal(t, w.Unproven(), true, "the silent router is unproven at first")
		time.Sleep(2*pingWait + 3*checkEvery) // its first ping may be as old as its announcement, and then a second one counts
		synctest.Wait()
		expect.Equal(t, w.Unproven(), false, "the silent router stays unproven")
		for _, p := range w.Peers() {
			if p.LastSeen.Equal(last) != (p.Name == "gone") || p.LastSeen.After(time.Now()) {
				t.Errorf("%s was seen at %v", p.Name, p.LastSeen)
			}
		}
		if others := w.Others(); len(w.Peers()) != 4 || len(others) != 1 || !others[0].LastSeen.Equal(last) {
			t.Errorf("%d peers and %+v", len(w.Peers()), others)
		}
		for _, n := range []*node{busy, gone, rogue} { // two of them are back
			w.load(n)
		}
		w.expect("busy gone live")
		if others := w.Others(); !others[0].LastSeen.Equal(time.Now()) {
			t.Errorf("%+v", others)
		}
		time.Sleep(keep + time.Minute)
		w.expect("")
		if peers, others := w.Peers(), w.Others(); len(peers)+len(others) > 0 {
			t.Errorf("they are remembered: %+v, %+v", peers, others)
		}
	})
}

// After a pause of this process, silence of others says nothing.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		box := w.node("box", true)
		w.announce(box, false)
		w.Roster.mu.Lock()
		w.checked = w.checked.Add(-time.Minute)
		for _, one := range w.routers {
			one.LastSeen = one.LastSeen.Add(-time.Minute)
		}
		w.Roster.mu.Unlock()
		time.Sleep(2 * checkEvery)
		w.expect("box")
		if pings := w.sent(); len(pings) > 1 {
			t.Error(pings)
		}
	})
}

// While our own pings are not answered either, others are not lost.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		box := w.node("box", true)
		w.announce(box, false)
		w.mu.Lock()
		w.slow = true
		w.mu.Unlock()
		time.Sleep(3500 * time.Millisecond)
		w.expect("box")
		time.Sleep(2 * time.Second)
		w.expect("")
	})
}

// Forged, foreign and repeated announcements change nothing.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		box, rogue := w.node("box", true), w.node("box", false)
		first := box.value()
		w.announce(box, false)
		box.a.Revision, box.a.Servers = 2, []directory.Server{{Name: "gpu", Definitions: directory.Reference{Sum: strings.Repeat("ab", 32), Size: 1, Chunks: 1}}}
		w.announce(box, false)
		for _, value := range [][]byte{
			first, // again
			bytes.Replace(first, []byte(`"revision":1`), []byte(`"revision":9`), 1),
			rogue.value(), // of another node
			[]byte("x"),
		} {
			w.Announced(box.a.Key, "R", value, false)
		}
		w.Announced(box.a.Key, "S", box.value(), false) // for another router
		w.announce(rogue, false)
		w.load(rogue)
		w.expect("box")
		peers := w.Peers()
		if len(peers) != 1 || peers[0].Revision != 2 || len(peers[0].Servers) != 1 {
			t.Errorf("%+v", peers)
		}
		if others := w.Others(); len(others) != 1 || others[0].Key != rogue.a.Key || others[0].Node != "box" {
			t.Errorf("%+v", others)
		}
		for i := range 2 * maxOthers {
			w.note(Other{Key: "U" + strings.Repeat("A", i)})
		}
		expect.Equal(t, len(w.Others()), maxOthers, "others")
		w.trusted = nil
		w.Trust()
		w.expect("")
	})
}

// An announcement that is read while its node loses trust counts for nothing.
func TestTrustEndsMeanwhile(t *testing.T) {
	w, asked := &world{t: t}, 0
	w.Roster = New(Options{Key: "UOWN", Cluster: "office", Node: "ann", Log: zap.NewNop(), Trusted: func(string) bool { asked++; return asked == 1 }})
	w.announce(w.node("box", true), false)
	if peers := w.Peers(); len(peers) > 0 {
		t.Errorf("%+v", peers)
	}
}

func TestLoads(t *testing.T) {
	w := &world{t: t}
	w.Roster = New(Options{Key: "UOWN", Cluster: "office", Node: "ann", Trusted: func(string) bool { return true }, Log: zap.NewNop()})
	box := w.node("box", true)
	address := stream.Address{Key: box.a.Key, Router: "R"}
	w.announce(box, false)
	changed := w.Changed()
	w.Loaded(box.a.Key, "R", []byte(`{"servers":{"gpu":{"state":"failed","calls":2,"waiting":1}}}`), false, time.Now())
	if load, count := w.Load(address, "gpu"); load != (ServerLoad{"failed", 2, 1}) || count != 1 {
		t.Error(load, count)
	}
	select {
	case <-changed:
	default:
		t.Error("a change of state is no change")
	}
	changed = w.Changed()
	for _, text := range []string{`{"servers":{"gpu":{"state":"failed","calls":3}}}`, `[`, strings.Repeat(" ", maxLoad) + "{}"} {
		w.Loaded(box.a.Key, "R", []byte(text), false, time.Now())
	}
	if load, count := w.Load(address, "gpu"); load.Calls != 3 || count != 3 {
		t.Error(load, count)
	}
	select {
	case <-changed:
		t.Error("another number of calls is a change")
	default:
	}
}

func TestNames(t *testing.T) {
	names := nameAll(map[string]string{"UABCDEF": "box", "UBBCDEF": "box", "UCQRSTU": "box", "UDABCDE": "tower"})
	if names["UABCDEF"] != "box" || names["UBBCDEF"] != "box-bcde" || names["UCQRSTU"] != "box-qrst" || names["UDABCDE"] != "tower" {
		t.Error(names)
	}
}
