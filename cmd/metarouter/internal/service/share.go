package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	serverprocess "github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/server"
)

const (
	// HostFlag makes a process of serve the router that others share. Its value is the path of the
	// socket to listen on.
	HostFlag = "host-of-clients"

	// lastMoment is how long the servers have to end in order after the last client's
	// process was killed. Then the process guard kills them.
	lastMoment = time.Second

	// maxLost bounds how many shared routers may end, one after the other, while each serves
	// the client for less than aWhile. From the third on, the next one waits: a second, then twice as long each time, and
	// maxPause at most.
	maxLost  = 10
	aWhile   = time.Minute
	maxPause = 30 * time.Second
)

// mayShare reports whether another process could serve the client on our streams. A
// person at a terminal has a router of its own.
func (p *process) mayShare() bool {
	if !p.maySocket() {
		return false
	}
	for _, stream := range p.out.Streams {
		if _, ok := stream.(*os.File); !ok {
			return false
		}
	}
	return !console.IsTerminal(p.out.Streams[0]) && !console.IsTerminal(p.out.Streams[1])
}

// maySocket reports whether clients of other processes may reach a router of this process.
func (p *process) maySocket() bool {
	return !p.flags.Standalone && p.Files.Data != "" && daemon.HasSockets()
}

// A sharing finds the routers that serve the client of this process, one after the other.
type sharing struct {
	*process
	c config.Config // as it was when the last router was looked for

	joiner  daemon.Joiner
	session atomic.Pointer[daemon.Session] // with the shared router; nil if this process serves the client
	since   time.Time                      // when the last shared router began to serve
	lost    int                            // shared routers that have ended in a short time, or have let no client in
	alone   chan error                     // gets how the service of this process has ended; nil without one
}

// share has a shared router serve the client until it leaves. If none can be started, or only with a broken
// configuration, this process serves the client itself.
func (p *process) share(ctx context.Context, c config.Config) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	s := &sharing{process: p, c: c}
	s.joiner = daemon.Joiner{
		Sockets: daemon.SocketsOf(p.Files.Data, c.Files),
		Terms:   p.terms(c.Files),
		Text:    func() string { return s.c.Text.Digest() },
		Client: daemon.Client{
			Program: p.flags.Program, Profile: p.flags.Profile, Only: p.flags.Only, View: p.flags.View, LogLevel: p.out.LogLevel,
			Environ: os.Environ(),
		},
		Host:  append([]string{exe}, append(p.flags.Args, "--"+HostFlag)...),
		Log:   filepath.Join(p.Files.Data, "crashes.log"),
		Err:   p.out.Streams[2].(*os.File),
		Other: p.noteOther,
	}
	s.joiner.Client.Folder, _ = os.Getwd()
	defer s.passOnHangups(ctx)()
	relay := daemon.Relay{In: pipe.Inherited(p.out.Streams[0].(*os.File)), Out: p.out.Raw, Connect: s.connect}
	err = relay.Run(ctx)
	if session := s.session.Load(); session != nil {
		<-session.Released()
	}
	if s.alone != nil {
		err = cmp.Or(err, <-s.alone)
	}
	return err
}

// passOnHangups has the shared router read its configuration again at each SIGHUP, until stop is called.
func (s *sharing) passOnHangups(ctx context.Context) (stop func()) {
	hangup := make(chan os.Signal, 1)
	ossignal.Notify(hangup, syscall.SIGHUP)
	go func() {
		for range hangup {
			if session := s.session.Load(); session != nil { // else the service of this process gets the signal too
				session.Reload(ctx)
			}
		}
	}()
	return func() {
		ossignal.Stop(hangup)
		close(hangup)
	}
}

// connect finds a shared router for the client, or starts one, or serves the client in this process. left says that the client has
// left the router before.
func (s *sharing) connect(ctx context.Context, left bool) (daemon.Conn, error) {
	if s.alone != nil {
		err := <-s.alone
		s.alone = nil
		return nil, cmp.Or(err, errClientLeft)
	}
	if s.session.Swap(nil) != nil {
		if time.Since(s.since) > aWhile {
			s.lost = 0
		}
		s.noteLost(daemon.ErrLost, left)
	}
	for s.lost < maxLost {
		if why := pauseAfter(ctx, s.lost); why != nil {
			return nil, why
		}
		session, err := s.joiner.Join(ctx)
		switch {
		case err == nil:
			s.session.Store(session)
			s.since = time.Now()
			return session, nil
		case ctx.Err() != nil, errors.Is(err, daemon.ErrRefused):
			return nil, err
		case !errors.Is(err, daemon.ErrLost), !s.noteLost(err, false): // then with the configuration before the edit
			return s.serveAlone(ctx, err), nil
		}
	}
	return nil, fmt.Errorf("%d shared routers have ended, one after the other; %s has their last words", s.lost, s.joiner.Log)
}

// pauseAfter waits before the next router is started, after so many that have ended.
func pauseAfter(ctx context.Context, lost int) error {
	if lost >= 3 && signal.Within(ctx.Done(), min(time.Second<<min(lost-3, 10), maxPause)) {
		return context.Cause(ctx)
	}
	return nil
}

// noteLost counts a shared router that has ended, or that the client has left. The next one gets the files as they are now;
// it reports whether they are usable.
func (s *sharing) noteLost(err error, left bool) (usable bool) {
	if left {
		s.log.Info("another router takes over from the shared one")
	} else {
		s.log.Warn("the shared router has ended; another takes over", zap.Error(err))
	}
	s.lost++
	now, usable, err := s.Files.Read(s.c.Files, s.named)
	if usable = usable && err == nil; usable { // else a shared router keeps the old text, too
		s.c = now
	}
	return usable
}

// serveAlone serves the client in this process, until it leaves.
func (s *sharing) serveAlone(ctx context.Context, why error) daemon.Conn {
	s.log.Info("serving the client in a process of its own", zap.Error(why))
	ours, theirs := daemon.Local()
	s.alone = make(chan error, 1)
	go func() {
		err := s.serve(ctx, s.c, theirs.PipeReader, theirs.PipeWriter)
		theirs.Close()
		s.alone <- err
	}()
	return ours
}

// hostClients runs the shared router: it serves the clients of other processes at the socket, until the
// last one has left.
func (p *process) hostClients(ctx context.Context, c config.Config) error {
	var lines daemon.Log
	p.out.Err = &lines
	var err error
	if p.log, err = p.out.Logger(zapcore.InfoLevel, lines.Wanted); err != nil {
		return err
	}
	terms := p.terms(c.Files)
	if p.Files.Data, err = filepath.Abs(p.Files.Data); err != nil {
		return err
	}
	if home, err := os.UserHomeDir(); err == nil {
		_ = os.Chdir(home) // else the first client's folder stays in use
	}
	s := p.newService(p.Settle(ctx, c, true))
	s.listeners = []listener{func(ctx context.Context, r *adapter.Router, m *server.Servers) error {
		h := s.host(terms, r, m, &lines)
		h.Abandoned = func() { time.AfterFunc(lastMoment, func() { os.Exit(console.Failed) }) }
		return cmp.Or(h.Run(ctx, p.flags.Host, s.requests(ctx)), errClientLeft)
	}}
	return s.run(ctx)
}

// host returns the host of clients of other processes for a router.
func (s *service) host(terms daemon.Terms, r *adapter.Router, m *server.Servers, lines *daemon.Log) *daemon.Host {
	reload := func() {
		select {
		case s.hangup <- syscall.SIGHUP:
		default: // a reload is pending
		}
	}
	return &daemon.Host{
		Program:    s.flags.Program,
		Terms:      terms,
		Text:       func() string { return r.Configured().Text.Digest() },
		Reload:     reload,
		HasProfile: func(profile string) bool { _, ok := m.Seen(server.View{}, profile); return ok },
		Serve: func(ctx context.Context, client daemon.Client, in io.Reader, out io.Writer) error {
			seen, ok := m.Seen(server.View(client.View), chosen(client.Profile, client.Only)...)
			if !ok {
				return nil // since HasProfile was asked
			}
			at := placeOf(client, r, s.Runner)
			serverprocess.Adopt(at.variables)
			if s.lend(r.Configured(), at.lookup) { // then the configuration is to be read again
				reload()
			}
			return seen.Serve(ctx, at, in, out)
		},
		Log: lines,
	}
}

// terms returns the terms on which clients share a router. A client's folder, its variables, and the flags that
// only say how it sees the router are none of them.
func (p *process) terms(files []string) daemon.Terms {
	var paths []string
	for _, file := range files {
		paths = append(paths, daemon.Resolved(file))
	}
	return daemon.Terms{
		"configuration":    strings.Join(paths, "\n"),
		"user":             strconv.Itoa(os.Getuid()),
		"container":        strings.Join(daemon.Namespaces(), " "),
		"data folder":      daemon.Resolved(p.Files.Data),
		"trust (--config)": strconv.FormatBool(p.named),
		"--cluster":        p.flags.Cluster,
		"--no-watch":       strconv.FormatBool(p.flags.NoWatch),
	}
}
