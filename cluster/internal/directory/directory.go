// Package directory has the servers that nodes share, and their definitions.
//
// It is in two key-value buckets of JetStream. Definitions are kept by their hash; an announcement,
// which its node signs and puts again and again, names the hashes. Package roster, not this one,
// knows which nodes are alive.
//
// While JetStream, or its leader, is away, known definitions stay known, and requests are tried
// again. Data from the buckets is believed after signature and hash were checked, so that garbage
// of a node harms no other.
package directory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Options configure a Directory. All but Log must be set.
type Options struct {
	JetStream func() jetstream.JetStream // of the current connection; nil before there is one
	Cluster   string
	Key       string // the public key of this node
	Node      string // its name
	Version   string // of the router
	Signer    frame.Signer
	Trusted   func(key string) bool
	Log       *zap.Logger
}

// A Directory knows the servers that nodes share. Its methods may be called by many goroutines at
// once.
type Directory struct {
	options Options
	dirty   chan struct{} // there is something to put
	again   chan struct{} // the watch starts again
	wanting chan struct{} // wants changed

	opening sync.Mutex // held while buckets are opened, for at most four times [try]

	mu        sync.Mutex // guards the fields below
	buckets   *buckets   // nil if they have to be opened
	made      time.Time  // the buckets that put is about
	own       []Server
	revision  string
	mine      map[string]stored        // the definitions that own refers to, by sum
	put       map[string]time.Time     // when definitions were put, by sum
	known     map[string]*Announcement // by key
	wants     map[string]string        // revisions by key
	cache     cache
	problems  map[string]string // by our request
	changed   signal.Change
	inspected int  // how many pieces were compared
	watched   bool // the announcements that there were at the start have come
	refused   int64
}

// New returns a Directory that knows nothing.
func New(o Options) *Directory {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Directory{
		options: o,
		dirty:   make(chan struct{}, 1), again: make(chan struct{}, 1), wanting: make(chan struct{}, 1),
		mine: map[string]stored{}, put: map[string]time.Time{}, known: map[string]*Announcement{}, wants: map[string]string{},
		cache: cache{items: map[string]*cached{}}, problems: map[string]string{},
	}
}

// Run announces and listens until ctx ends.
func (d *Directory) Run(ctx context.Context) error {
	var g sync.WaitGroup
	for _, f := range []func(context.Context){d.publish, d.watch, d.ask, d.sweepNowAndThen} {
		g.Go(func() { f(ctx) })
	}
	g.Wait()
	return nil
}

// An Offering is a server that this node shares.
type Offering struct {
	Server      // without Definitions and Tools
	Definitions *Definitions
}

// Announce replaces the servers that this node shares, and returns their revision, "" without
// servers. It returns at once. leftOut describes the servers that break the bounds.
func (d *Directory) Announce(offers []Offering) (revision string, leftOut []string) {
	slices.SortFunc(offers, func(a, b Offering) int { return compare(a.Name, b.Name) })
	piece := d.piece()
	a := Announcement{}
	mine := map[string]stored{}
	for _, o := range offers {
		s, err := store(o.Definitions, piece)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%s: %v", o.Name, err))
			continue
		}
		o.Server.Definitions, o.Server.Tools = s.Reference, len(o.Definitions.Tools)
		before := len(a.Servers)
		a.Servers = append(a.Servers, o.Server)
		if a.bound() > 0 || len(a.Servers) == before {
			leftOut = append(leftOut, fmt.Sprintf("%s: this node shares too much: at most %d servers with %d tools and %d MiB of definitions; share fewer", o.Name, MaxServers, MaxTools, MaxDefinitions>>20))
			continue
		}
		mine[s.Sum] = s
	}
	return d.replace(a.Servers, mine), leftOut
}

func (d *Directory) replace(servers []Server, mine map[string]stored) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := revision(servers); r != d.revision {
		d.own, d.mine, d.revision = servers, mine, r
		maps.DeleteFunc(d.put, func(sum string, _ time.Time) bool { _, ok := mine[sum]; return !ok })
		signal.Leave(d.dirty)
	}
	return d.revision
}

// Retry tries failed requests again at once: there is a connection to NATS again.
func (d *Directory) Retry() {
	for _, c := range []chan struct{}{d.dirty, d.again, d.wanting} {
		signal.Leave(c)
	}
}

// piece is the length of pieces that fit into a message of NATS.
func (d *Directory) piece() int {
	piece := maxPiece
	js := d.options.JetStream()
	if js == nil || js.Conn().MaxPayload() <= 0 {
		return piece
	}
	limit := int(js.Conn().MaxPayload())
	for piece > minPiece && piece > limit-limit/4 {
		piece /= 2
	}
	return piece
}

// Own returns the servers that this node announces.
func (d *Directory) Own() []Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

// Known returns the latest announcements of the trusted nodes and this one, by key. They must not be
// modified.
func (d *Directory) Known() map[string]*Announcement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.known)
}

// Watched reports whether the announcements that there are were read once.
func (d *Directory) Watched() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watched
}

// Want says which revisions are in force, by key: those that are not known are asked for.
func (d *Directory) Want(revisions map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !maps.Equal(d.wants, revisions) {
		d.wants = revisions
		signal.Leave(d.wanting)
	}
}

// Trust is called when other nodes are trusted than before.
func (d *Directory) Trust() {
	d.mu.Lock()
	maps.DeleteFunc(d.known, func(key string, _ *Announcement) bool { return !d.trusted(key) })
	d.changed.Notify()
	d.mu.Unlock()
	signal.Leave(d.again)
}

func (d *Directory) trusted(key string) bool { return key == d.options.Key || d.options.Trusted(key) }

// Changed returns a channel that is closed at the next change of Known, Watched or Problem.
func (d *Directory) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed.Next()
}

// Problem describes the problem as a sentence; "" without a problem.
func (d *Directory) Problem() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, doing := range slices.Sorted(maps.Keys(d.problems)) {
		return d.problems[doing]
	}
	return ""
}

// report notes the outcome of a request of ours. err may be nil.
func (d *Directory) report(doing string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := ""
	if err != nil {
		text = words(err)
		d.buckets = nil // they may have gone
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

// ready returns the buckets.
func (d *Directory) ready(ctx context.Context) (*buckets, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	d.mu.Lock()
	b := d.buckets
	d.mu.Unlock()
	if b != nil {
		return b, nil
	}
	b, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.made.Equal(b.made) { // all that was put has gone
		d.made = b.made
		clear(d.put)
	}
	d.buckets = b
	return b, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
