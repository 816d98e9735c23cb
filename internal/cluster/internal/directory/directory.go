// Package directory has the routers of a cluster and the servers that they share, in a key-value
// bucket of JetStream.
//
// The bucket has three kinds of values. KEY.ROUTER.node is the announcement of a router, signed by
// its node. KEY.ROUTER.load says each second that the router lives, and how busy its servers are; it
// is not signed. KEY.def.SUM.N are the definitions of a server, by their hash. So the permissions of
// NATS can let a node write values of its own key only.
//
// Announcements and definitions are believed after signature and hash were checked. While JetStream
// is away, all that is known stays known, and requests are tried again.
package directory

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Options configure a Directory.
type Options struct {
	Conn func() *nats.Conn // the current connection; nil before there is one
	Own  Announcement      // with the cluster, and the key, name and version of this node
	Sign func([]byte) ([]byte, error)
	Load func() []byte // what is put for the load of this router

	// Announced and Loaded get the values of other routers and this one, one after the other. stored
	// values may be old: the watch of the bucket has just begun. put is the time by the clock of NATS.
	Announced func(key, router string, value []byte, stored bool)
	Loaded    func(key, router string, value []byte, stored bool, put time.Time)
	Log       *zap.Logger
}

// A Directory puts the values of a router and watches the values of others. Its methods may be called by
// many goroutines at once.
type Directory struct {
	options Options
	dirty   chan struct{} // the announcement is to be put
	again   chan struct{} // the watch starts again

	opening sync.Mutex // held while the bucket is opened
	putting sync.Mutex // held while the announcement and definitions are put

	mu       sync.Mutex // guards the fields below
	bucket   jetstream.KeyValue
	made     time.Time          // when the bucket that put is about was made
	own      Announcement       // without a router until Introduce
	mine     map[string]*packed // the definitions that own refers to, by sum
	last     [sha256.Size]byte  // of the announcement that was put last
	seen     time.Time          // when the watch showed a value of this router
	problems map[string]string  // by our request
	changed  signal.Change
	watched  bool // the values that there were at the start have come
}

// New returns a Directory that knows nothing.
func New(o Options) *Directory {
	o.Own.Protocol = Protocol
	return &Directory{options: o, own: o.Own, dirty: make(chan struct{}, 1), again: make(chan struct{}, 1), problems: map[string]string{}}
}

// Run puts and watches until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	var g sync.WaitGroup
	for _, f := range []func(context.Context){d.publish, d.beat, d.watch} {
		g.Go(func() { f(ctx) })
	}
	g.Wait()
}

// Share replaces the servers that this router shares, by name. It returns at once. leftOut describes
// the servers that break the bounds.
func (d *Directory) Share(offers map[string]clusternode.Offer) (leftOut []string) {
	chunk := maxChunk
	if conn := d.options.Conn(); conn != nil && conn.MaxPayload() > 0 {
		chunk = max(minChunk, min(chunk, int(conn.MaxPayload()*3/4)))
	}
	mine := map[string]*packed{}
	var servers []Server
	for _, name := range slices.Sorted(maps.Keys(offers)) {
		o := offers[name]
		p, err := pack(o, chunk)
		if err != nil {
			leftOut = append(leftOut, name+": "+err.Error())
			continue
		}
		mine[p.Sum] = p
		servers = append(servers, Server{Name: name, Service: o.Service, Terms: o.Terms, Tools: len(o.Tools), Definitions: p.Reference})
	}
	servers, over := bound(servers)
	for _, name := range over {
		leftOut = append(leftOut, name+": this node shares too much; share fewer servers or tools")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(servers, d.own.Servers) {
		return leftOut
	}
	if len(d.own.Servers) == 0 {
		d.own.Since = time.Now().UnixMilli()
	}
	for sum, p := range mine {
		if before := d.mine[sum]; before != nil {
			p.put = before.put
		}
	}
	d.mine, d.own.Servers = mine, servers
	d.edited()
	return leftOut
}

// edited has the announcement put. d.mu must be held.
func (d *Directory) edited() {
	d.own.Revision++
	signal.Leave(d.dirty)
}

// Introduce says as which router and instance this one is announced.
func (d *Directory) Introduce(router, instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.own.Router, d.own.Instance = time.Now(), router, instance
	d.edited()
}

// Own returns the servers that this node announces.
func (d *Directory) Own() []Server { return d.self().Servers }

func (d *Directory) self() Announcement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// Retry tries failed requests again at once, and reads all values again: there is a new connection,
// or other nodes are trusted than before.
func (d *Directory) Retry() {
	signal.Leave(d.dirty)
	signal.Leave(d.again)
}

// Changed returns a channel that is closed at the next change of State.
func (d *Directory) Changed() <-chan struct{} { return d.changed.Next() }

// State reports whether the values that there are were read once, and describes the problem as a
// sentence; "" without a problem.
func (d *Directory) State() (watched bool, problem string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, doing := range slices.Sorted(maps.Keys(d.problems)) {
		return d.watched, d.problems[doing]
	}
	return d.watched, ""
}

// report notes the outcome of a request of ours. err may be nil.
func (d *Directory) report(doing string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := ""
	if err != nil {
		text = words(err)
		d.bucket = nil // it may have gone
	}
	if d.problems[doing] == text {
		return
	}
	if text == "" {
		delete(d.problems, doing)
	} else {
		d.problems[doing] = text
		level := zap.InfoLevel
		if isDisconnected(err) { // the connection says so itself, if that lasts
			level = zap.DebugLevel
		}
		d.options.Log.Log(level, "the directory of the cluster is not in order; trying again", zap.String("while", doing), zap.String("problem", text), zap.Error(err))
	}
	d.changed.Notify()
}
