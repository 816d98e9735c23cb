package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
)

// An opener opens sessions with one server, each with a process of its own unless the
// server is remote or in this process.
type opener struct {
	*common
	name    string
	log     *zap.Logger
	stderr  *process.LogFile
	began   func(*instance)                                    // called with each session that begins, and may fail
	text    func(in *instance, first string)                   // called when the shared session's server writes text, and no message
	hear    func(in *instance, shared bool, m session.Message) // called with messages that belong to no request
	secrets *resolve.Server                                    // that its entries refer to
	tokens  atomic.Pointer[tokens]                             // of its login, for the latest session; nil before the first, or without logins
	direct  atomic.Pointer[launch.Direct]                      // the command to start instead of one that fetches it; nil for that itself
	limits  *peer.Limits                                       // of the server's questions
	running *signal.Life                                       // with the goroutines of sessions; ends after the server's life
}

// Terms are those on which a session is opened.
type terms struct {
	generation   context.Context // in which it begins; it ends with that
	capabilities json.RawMessage // of the client
	owner        session.Client  // the only client that will use it; nil if several may
	era          peer.Era        // that the client needs, a preference if shared; UnknownEra leaves it to the server
	shared       bool            // the session that all clients use, and from which lists are read
	users        string          // the clients that will use it, if it is neither shared nor one client's
	reason       string          // why it is not the shared session, as the end of a sentence
	user         *user           // the only principal that will use it; nil if several may
	entry        *config.Server  // of a variant; nil for the entry of the session next to which it is opened
}

// allCapabilities are the capabilities of a session that several clients use: every capability
// that a client may have, so that servers offer all that they can.
var allCapabilities = json.RawMessage(`{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},` +
	`"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`)

// open opens a session, and remembers the facts that it has shown of the server.
func (o *opener) open(ctx context.Context, entry config.Server, on terms) (*instance, error) {
	known := o.launcher.Cache.Get(entry)
	if on.shared && (entry.Transport != config.Stdio || known.Era == peer.LegacyEra || known.Era == peer.ModernEra) {
		on.era = peer.UnknownEra
	}
	in, err := o.reach(ctx, entry, on, known)
	if err != nil {
		return nil, err
	}
	chosen := on.era == peer.LegacyEra && !in.Modern() // for the client: the server may speak both eras
	o.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) {
		if in.BothEras() {
			r.Era = peer.BothEras
		} else if !chosen {
			r.Era = peer.Era(in.Info().Era())
		}
		if entry.Transport == config.AutoHTTP {
			r.Transport = in.transport
		}
	})
	if on.era == peer.ModernEra && !in.Modern() {
		err = errors.New("it speaks older revisions only")
		in.stop(err)
		return nil, err
	}
	// Over HTTP, servers that speak both eras keep no sessions, and can send legacy clients no requests.
	in.otherEra.Store(in.process != nil && (chosen || in.BothEras()))
	if level := o.level.Load(); level != nil {
		in.SetLevel(ctx, *level)
	}
	if !on.shared && !in.Modern() {
		in.settle(ctx, known.AsksRoots)
	}
	in.Subscriptions.Follow(o.log)
	in.greeted.Store(true)
	return in, nil
}

// reach opens a session in an era that the server speaks, and over a transport that it has.
func (o *opener) reach(ctx context.Context, entry config.Server, on terms, known launch.ProbeResult) (*instance, error) {
	if on.era != peer.UnknownEra {
		known.Era = on.era
	}
	in, err := o.try(ctx, entry, on, known)
	_, refused := errors.AsType[*session.Error](err)
	_, other := errors.AsType[*peer.VersionError](err)
	_, exited := errors.AsType[*exitError](err)
	switch first := err; {
	case errors.Is(err, peer.ErrProbeExit):
		known.Era = peer.LegacyEra
		in, err = o.try(ctx, entry, on, known)
	case known.Era == peer.LegacyEra && on.shared && (refused || other || transport.NotHere(err) || exited && on.era == peer.LegacyEra):
		known.Era = peer.UnknownEra
		if in, err = o.try(ctx, entry, on, known); errors.Is(err, peer.ErrProbeExit) {
			err = first // it ends in both eras
		}
	}
	if (entry.Transport == config.AutoHTTP || entry.Transport == config.StreamableHTTP) && transport.NotHere(err) { // to many, "http" means both
		first, other := err, launch.ProbeResult{Transport: config.SSE}
		if transportOf(entry, known) == config.SSE {
			other.Transport = config.StreamableHTTP
		}
		entry.Transport = config.AutoHTTP
		if in, err = o.try(ctx, entry, on, other); err != nil {
			err = fmt.Errorf("neither streamable HTTP nor SSE: %w; %w", first, err)
		}
	}
	return in, err
}

// openNext opens a session next to the shared one, with the same entry. The session
// may outlive life, which ends its opening only.
func (o *opener) openNext(life context.Context, shared *instance, on terms) (*instance, error) {
	entry := on.entry
	if entry == nil {
		now := shared.entry()
		entry = &now
	}
	ctx, cancel := context.WithTimeoutCause(life, entry.StartTimeout, &timeoutError{entry.StartTimeout})
	defer cancel()
	in, err := o.open(ctx, *entry, on)
	if err != nil {
		return nil, err
	}
	log := o.log.Debug
	if on.entry != nil && on.user == nil {
		log = o.log.Info
	}
	log("opened a session next to the shared one", zap.Int("pid", in.pid()), zap.String("reason", on.reason))
	return in, nil
}

// unavailable returns the error of a client that gets no session.
func (o *opener) unavailable(state status.State, reason string) error {
	return &status.UnavailableError{Server: o.name, State: state, Reason: reason}
}

// transportOf returns how the server of the entry is reached, so far as is known.
func transportOf(entry config.Server, known launch.ProbeResult) config.Transport {
	switch {
	case entry.Transport != config.AutoHTTP:
		return entry.Transport
	case known.Transport == config.SSE:
		return config.SSE
	}
	return config.StreamableHTTP
}

// try starts the entry's process or reaches for the remote server, and shakes hands.
func (o *opener) try(ctx context.Context, entry config.Server, on terms, known launch.ProbeResult) (in *instance, err error) {
	resolved, err := o.secretsOf(on).Resolve(ctx, entry)
	if err != nil {
		return nil, err
	}
	switch entry.Transport {
	case config.Stdio:
		in, err = o.start(entry, resolved, on)
	case config.Scripts:
		in = o.inside(entry, on)
	default:
		in, err = o.dial(ctx, entry, resolved, on, transportOf(entry, known))
	}
	if err != nil {
		return nil, err
	}
	if in.transport == config.SSE {
		known.Era = peer.LegacyEra // SSE has no other
	}
	err = in.Handshake(ctx, peer.Greeting{Known: known.Era, Version: o.options.Version, Capabilities: in.declared, PID: in.pid()})
	if err == nil {
		return in, nil
	}
	err = in.fail(err)
	if exit, ok := errors.AsType[*exitError](err); ok && !errors.Is(err, peer.ErrProbeExit) {
		return nil, exit // it says everything
	}
	if errors.Is(err, peer.ErrSelf) {
		return nil, err
	}
	return nil, in.explain(err)
}

// build returns an instance of the entry over the link that open returns.
func (o *opener) build(entry config.Server, on terms, kind config.Transport, open func(*peer.Conn) peer.Link) *instance {
	conceal := sync.OnceValue(entry.Launch().Concealer) // made when a text is to be concealed
	in := &instance{
		transport: kind, hash: entry.Hash(), declared: on.capabilities,
		conceal: func(text string) string { return conceal()(o.secretsOf(on).Hide(text)) },
		user:    on.user,
		done:    make(chan struct{}),
	}
	in.current.Store(&entry)
	in.setOwner(on.owner)
	in.stderr = process.NewTail(in.conceal)
	in.Peer = peer.New(peer.Host{
		Server: o.name,
		Stray:  o.stray,
		Text: func(first string) {
			if on.shared {
				o.text(in, in.conceal(plain.Line(first)))
			}
		},
		Limits: o.limits,
		Roots:  entry.Roots,
		Asked: func(method string) {
			o.launcher.Cache.Edit(entry, func(r *launch.ProbeResult) { r.Asked(method) })
		},
		Owner:   func() session.Client { return *in.owner.Load() },
		Message: func(m session.Message) { o.hear(in, on.shared, m) },
	}, open)
	o.began(in)
	return in
}

// stray logs a line of the server that is no message.
func (o *opener) stray(line []byte, why error) {
	shown, ok := peer.Showable(line)
	if !ok {
		shown = "{…}"
	}
	o.log.Debug("skipped a line of the server, which is no message", zap.String("line", shown), zap.Int("bytes", len(line)), zap.Error(why))
}

// defaultStall is how long a server may leave its stdin unread if its entry sets
// no time-out: a server that works on a long call may not read meanwhile.
const defaultStall = 5 * time.Minute

// start starts the entry's process, and the goroutines that read from it and write to
// it.
func (o *opener) start(entry, resolved config.Server, on terms) (*instance, error) {
	p, err := o.launcher.Start(entry, resolved, o.direct.Load())
	if err != nil {
		return nil, err
	}
	stall := cmp.Or(entry.Timeout, defaultStall)
	for _, timeout := range entry.ToolTimeouts {
		stall = max(stall, timeout)
	}
	var lines *transport.Lines
	in := o.build(entry, on, config.Stdio, func(c *peer.Conn) peer.Link {
		lines = transport.NewLines(p.Stdin, stall, c)
		return lines
	})
	in.process = p
	o.running.Work.Go(func() { in.serve(lines, o.stderr) })
	return in, nil
}

// serve reads from the instance's process until it ends or is to end, and stops
// everything that the process leaves.
func (in *instance) serve(lines *transport.Lines, log *process.LogFile) {
	defer close(in.done)
	p := in.process
	eof, copied, written := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { defer close(copied); in.stderr.Copy(p.Stderr, log) }()
	go func() { defer close(written); written <- lines.Write() }()
	go func() { defer close(eof); lines.Read(p.Stdout) }()
	var broken error
	select {
	case <-p.Exited:
	case <-eof:
	case broken = <-written:
	case <-in.Done():
	}
	in.Calls.Refuse() // the server would not answer new ones
	select {          // a process is reported as ended a little after the end of its output
	case <-p.Exited:
	case <-in.Done():
	case <-time.After(process.ExitWait):
		if !signal.IsClosed(eof) {
			in.Close(fmt.Errorf("write to the server's stdin: %w", broken))
		}
	}
	if p.HasExited() { // its last output may not have arrived yet
		signal.Within(eof, process.GraceOutput)
		signal.Within(copied, process.GraceOutput)
	}
	in.Close(in.exitError())
	p.Stop(in.Spoke.Load())
	p.Stdout.Close()
	<-eof
	<-written
	in.Wait()
	signal.Within(copied, process.GraceOutput)
	p.Stderr.Close()
	<-copied
}

// inside opens a session with a server in this process.
func (o *opener) inside(entry config.Server, on terms) *instance {
	ours, theirs := net.Pipe()
	var lines *transport.Lines
	in := o.build(entry, on, entry.Transport, func(c *peer.Conn) peer.Link {
		lines = transport.NewLines(ours, defaultStall, c)
		return lines
	})
	c := &Connection{Peer: in.Peer, conn: ours, ended: make(chan struct{})}
	o.running.Work.Go(func() { o.options.Inside(entry, theirs) })
	o.running.Work.Go(func() {
		defer close(in.done)
		c.serve(lines)
	})
	return in
}

// dial reaches for the remote server of the entry.
func (o *opener) dial(ctx context.Context, entry, resolved config.Server, on terms, kind config.Transport) (*instance, error) {
	secrets := o.secretsOf(on)
	tokens, err := o.tokensOf(ctx, resolved, on)
	if err != nil {
		return nil, err
	}
	access := transport.Access{Headers: resolved.Headers, Hide: secrets.Hide, HideTokens: secrets.HideTokens, Tokens: tokens}
	if len(entry.References) > 0 {
		access.Renew = func(ctx context.Context) (map[string]string, error) {
			secrets.Forget(entry)
			resolved, err := secrets.Resolve(ctx, entry)
			return resolved.Headers, err
		}
	}
	site, err := transport.NewSite(resolved.URL, access, o.options.Version)
	if err != nil {
		return nil, err
	}
	var in *instance
	var end func() // ends the link, and asks the server to end the session
	if kind == config.SSE {
		link, err := transport.OpenSSE(ctx, site, o.log)
		if err != nil {
			site.Close()
			return nil, err
		}
		in = o.build(entry, on, kind, link.On)
		link.Start()
		end = link.End
	} else {
		in = o.build(entry, on, kind, func(c *peer.Conn) peer.Link {
			link := transport.NewStreamable(c, site, o.log)
			end = link.End
			return link
		})
	}
	o.running.Work.Go(func() {
		defer close(in.done)
		<-in.Done()
		end()
		in.Wait()
		site.Close()
	})
	return in, nil
}
