package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// connectTo returns JetStream at a server.
func connectTo(t *testing.T, url string) jetstream.JetStream {
	nc, err := nats.Connect(url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// start returns a running directory of a node that trusts all keys but those in distrusted.
func start(t *testing.T, url string, key *linktest.Key, distrusted ...string) *Directory {
	js := connectTo(t, url)
	d := New(Options{
		JetStream: func() jetstream.JetStream { return js }, Cluster: "metarouter", Key: key.Public, Node: "box", Version: "1.2.3", Signer: key,
		Trusted: func(key string) bool {
			for _, d := range distrusted {
				if d == key {
					return false
				}
			}
			return true
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { d.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

// until waits for a change after which done reports true.
func until(t *testing.T, d *Directory, what string, done func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := d.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no %s: %s", what, d.Problem())
		}
	}
}

func noJetStream() jetstream.JetStream { return nil }

func offering(name string, tools int) Offering {
	d := &Definitions{Info: Info{Name: name, ProtocolVersion: "2025-11-25", Capabilities: json.RawMessage(`{"tools":{}}`)}}
	for i := range tools {
		d.Tools = append(d.Tools, json.RawMessage(fmt.Sprintf(`{"name":"tool%d","description":%q,"inputSchema":{"type":"object"}}`, i, strings.Repeat(name, 20))))
	}
	return Offering{Server{Name: name, Terms: clusternode.Terms{Timeout: time.Minute, Validate: "on", Retry: "hints"}}, d}
}

func TestShare(t *testing.T) {
	s := natsserver.Start(t)
	box, ann := linktest.NewKey(), linktest.NewKey()
	a, b := start(t, s.URL(), ann), start(t, s.URL(), box)
	// Longer than a piece.
	revision, leftOut := b.Announce([]Offering{offering("gpu", 20), offering("big", 20_000)})
	if revision == "" || leftOut != nil {
		t.Fatal(revision, leftOut)
	}
	until(t, a, "announcement", func() bool { return a.Known()[box.Public] != nil })
	got := a.Known()[box.Public]
	if got.Revision != revision || len(got.Servers) != 2 || got.Servers[1].Tools != 20 || got.Servers[1].Terms.Timeout != time.Minute {
		t.Fatalf("%+v", got)
	}
	if n := got.Servers[0].Definitions.count(); n < 2 {
		t.Fatalf("%d pieces", n)
	}
	for i, tools := range []int{20_000, 20} {
		d, err := a.Fetch(t.Context(), got.Servers[i].Definitions)
		if err != nil || len(d.Tools) != tools || !strings.Contains(string(d.Tools[7]), "tool7") {
			t.Fatal(err, got.Servers[i].Name)
		}
	}

	again, _ := b.Announce([]Offering{offering("gpu", 21)})
	until(t, a, "new announcement", func() bool { return a.Known()[box.Public].Revision == again })
	if again == revision {
		t.Error("the revision does not change")
	}
	if !a.Watched() || a.Problem() != "" || b.Problem() != "" {
		t.Error(a.Watched(), a.Problem(), b.Problem())
	}
}

// Strangers' data in the buckets harms no node.
func TestGarbage(t *testing.T) {
	s := natsserver.Start(t)
	box, rogue := linktest.NewKey(), linktest.NewKey()
	a, b := start(t, s.URL(), linktest.NewKey(), rogue.Public), start(t, s.URL(), box)
	r := start(t, s.URL(), rogue)
	b.Announce([]Offering{offering("gpu", 20)})
	r.Announce([]Offering{offering("github", 20)})
	until(t, a, "announcement", func() bool { return a.Known()[box.Public] != nil })
	before := a.Known()[box.Public]
	until(t, r, "own announcement", func() bool { return r.Known()[rogue.Public] != nil })

	kv, err := connectTo(t, s.URL()).KeyValue(t.Context(), "metarouter-metarouter-nodes")
	if err != nil {
		t.Fatal(err)
	}
	forged := *before
	forged.Time, forged.Revision, forged.Servers = time.Now().UnixMilli(), "x", nil
	data, _ := forged.encode(rogue)
	future := *before
	future.Time, future.Revision = time.Now().Add(time.Hour).UnixMilli(), "y"
	ahead, _ := future.encode(box)
	other, _ := kv.Get(t.Context(), rogue.Public)
	for _, value := range [][]byte{data, nil, []byte("x"), make([]byte, 900_000), other.Value(), ahead} {
		if _, err := kv.Put(t.Context(), box.Public, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.Put(t.Context(), "not.a.key", data); err != nil {
		t.Fatal(err)
	}
	// A good one follows, so that the others were read.
	revision, _ := b.Announce([]Offering{offering("gpu", 22)})
	until(t, a, "announcement", func() bool { return a.Known()[box.Public].Revision != before.Revision })
	if known := a.Known(); len(known) != 1 || known[box.Public].Revision != revision {
		t.Errorf("%+v", known)
	}

	// Definitions other than the announced ones.
	definitions, err := connectTo(t, s.URL()).KeyValue(t.Context(), "metarouter-metarouter-definitions")
	if err != nil {
		t.Fatal(err)
	}
	ref := a.Known()[box.Public].Servers[0].Definitions
	for _, value := range [][]byte{[]byte("x"), compress([]byte("{}")), compress(make([]byte, 10<<20)), make([]byte, 600_000)} {
		if _, err := definitions.Put(t.Context(), ref.key(0), value); err != nil {
			t.Fatal(err)
		}
		if d, err := a.Fetch(t.Context(), ref); err == nil {
			t.Errorf("%+v", d)
		}
	}
}

// A node notices that someone has replaced or removed its definitions, and puts them again.
func TestInspect(t *testing.T) {
	s := natsserver.Start(t)
	a, b := start(t, s.URL(), linktest.NewKey()), start(t, s.URL(), linktest.NewKey())
	b.Announce([]Offering{offering("gpu", 20), offering("disk", 3)})
	until(t, a, "announcement", func() bool { return a.Known()[b.options.Key] != nil })
	kv, err := connectTo(t, s.URL()).KeyValue(t.Context(), "metarouter-metarouter-definitions")
	if err != nil {
		t.Fatal(err)
	}
	refs := a.Known()[b.options.Key].Servers
	if err := kv.Delete(t.Context(), refs[0].Definitions.key(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), refs[1].Definitions.key(0), "x"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := b.inspect(t.Context(), kv); err != nil {
			t.Fatal(err)
		}
		_, err := a.Fetch(t.Context(), refs[0].Definitions)
		_, err2 := a.Fetch(t.Context(), refs[1].Definitions)
		if err == nil && err2 == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err, err2)
		}
	}
}

// JetStream is away, with all that it had; then it comes back.
func TestJetStreamAway(t *testing.T) {
	s := natsserver.Start(t)
	box := linktest.NewKey()
	a, b := start(t, s.URL(), linktest.NewKey()), start(t, s.URL(), box)
	b.Announce([]Offering{offering("gpu", 20)})
	until(t, a, "announcement", func() bool { return a.Known()[box.Public] != nil })
	js := connectTo(t, s.URL())
	for _, bucket := range []string{"metarouter-metarouter-nodes", "metarouter-metarouter-definitions"} {
		if err := js.DeleteKeyValue(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	revision, _ := b.Announce([]Offering{offering("gpu", 21)})
	a.Want(map[string]string{box.Public: revision})
	until(t, b, "problem", func() bool { return b.Problem() != "" })
	if a.Known()[box.Public] == nil {
		t.Error("what is known is forgotten")
	}
	s.Restart()
	until(t, a, "announcement", func() bool { return a.Known()[box.Public].Revision == revision })
	if _, err := a.Fetch(t.Context(), a.Known()[box.Public].Servers[0].Definitions); err != nil {
		t.Error(err)
	}
	until(t, b, "recovery", func() bool { return b.Problem() == "" })
}

func TestSweep(t *testing.T) {
	s := natsserver.Start(t)
	box := linktest.NewKey()
	a, b := start(t, s.URL(), linktest.NewKey()), start(t, s.URL(), box)
	b.Announce([]Offering{offering("gpu", 20)})
	until(t, a, "announcement", func() bool { return a.Known()[box.Public] != nil })
	old := a.Known()[box.Public].Servers[0].Definitions
	revision, _ := b.Announce([]Offering{offering("gpu", 21)})
	until(t, a, "announcement", func() bool { return a.Known()[box.Public].Revision == revision })
	for _, tc := range []struct {
		at   time.Duration
		want int
	}{{time.Hour, 0}, {25 * time.Hour, 1}, {25 * time.Hour, 0}} {
		if n, err := a.sweep(t.Context(), time.Now().Add(tc.at)); n != tc.want || err != nil {
			t.Errorf("after %s: %d, %v", tc.at, n, err)
		}
	}
	if _, err := a.Fetch(t.Context(), old); err == nil {
		t.Error("the old one is still there")
	}
	if _, err := a.Fetch(t.Context(), a.Known()[box.Public].Servers[0].Definitions); err != nil {
		t.Error(err)
	}
}

func TestNoJetStream(t *testing.T) {
	s := natsserver.Start(t, natsserver.Options{NoJetStream: true})
	d := start(t, s.URL(), linktest.NewKey())
	until(t, d, "problem", func() bool { return strings.Contains(d.Problem(), "nats-server -js") })
}
