package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	// hostFlag makes a process of serve the router that others share. It is started with
	// a listening socket as its file hostSocket.
	hostFlag   = "host-of-clients"
	hostSocket = 3

	// lastMoment is how long the servers have to end in order after the last client's
	// process was killed. Then the process guard kills them.
	lastMoment = time.Second
)

// mayShare reports whether another process could serve the client on our streams. A
// person at a terminal has a router of its own.
func mayShare(env *environment) bool {
	if env.standalone || env.files.Data == "" || !daemon.CanShare {
		return false
	}
	for _, stream := range env.Streams {
		if _, ok := stream.(*os.File); !ok {
			return false
		}
	}
	return !console.IsTerminal(env.Streams[0]) && !console.IsTerminal(env.Streams[1])
}

// errShareAgain ends the service of a process whose client may be served by a shared router again.
var errShareAgain = errors.New("a router may be shared again")

const (
	// alonePause is how long a process serves its client itself before it looks for a shared router
	// again, at first; twice as long each further time, and maxAlonePause at most.
	alonePause    = time.Minute
	maxAlonePause = time.Hour
)

// serveShared has a shared router serve the client until it leaves. While that is not possible, this
// process serves the client itself.
func serveShared(ctx context.Context, env *environment, c config.Config, named bool, f serveFlags, log *zap.Logger) error {
	memory, file, err := daemon.NewMemory(daemon.JournalSize)
	var stage *pipe.Stage
	if err == nil {
		stage, err = pipe.NewStage()
	}
	if err != nil {
		log.Info("serving the client in a process of its own", zap.Error(err))
		return serveHere(ctx, env, c, named, f, log, nil, &admin.Edits{Unwatched: f.noWatch})
	}
	for pause := alonePause; ; pause = min(2*pause, maxAlonePause) {
		err := shareRouter(ctx, env, &c, named, f, file, stage, log)
		if !errors.Is(err, daemon.ErrCannotShare) {
			return err
		}
		log.Info("serving the client in a process of its own", zap.Error(err))
		alone, leave := context.WithCancelCause(ctx)
		look := func() (well, edited bool) {
			now, usable, err := env.files.Read(c.Files, named)
			if err != nil || !usable || daemon.Program(version) != program() {
				return false, true
			}
			edited = now.Digest() != c.Digest()
			c = now
			return true, edited
		}
		said := &admin.Edits{Unwatched: f.noWatch}
		again := awaitSharing(said, pause, look, func() { leave(errShareAgain) })
		err = serveHere(alone, env, c, named, f, log, daemon.NewJournal(memory, stage), said, again)
		leave(nil)
		if context.Cause(alone) != errShareAgain {
			return err
		}
		log.Info("looking for a shared router again")
	}
}

// awaitSharing returns a listener that calls leave when a router may be shared again: after the pause,
// or when the configuration was edited, once all is well and the client awaits no answer.
func awaitSharing(said *admin.Edits, pause time.Duration, look func() (well, edited bool), leave func()) service.Listener {
	return func(ctx context.Context, _ *adapter.Parts, m *server.Servers) error {
		due, over := time.After(pause), false // the pause, or an edit has ended it
		for {
			judged, _ := said.Now()
			well, edited := look()
			if over = over || edited; well && over {
				break
			}
			select {
			case <-judged:
			case <-due:
				over, due = true, time.After(pause)
			case <-ctx.Done():
				return nil
			}
		}
		for slices.ContainsFunc(m.Clients(), func(c server.Client) bool { return c.Open > 0 }) {
			select {
			case <-time.After(50 * time.Millisecond): // look again whether the client awaits no answer
			case <-ctx.Done():
				return nil
			}
		}
		leave()
		return nil
	}
}

// shareRouter has a shared router serve the client until it leaves. An error that wraps
// [daemon.ErrCannotShare] means that this process must serve the client; the memory in file and
// the stage say where to go on. c follows the configuration when routers end.
func shareRouter(ctx context.Context, env *environment, c *config.Config, named bool, f serveFlags, file *os.File, stage *pipe.Stage, log *zap.Logger) error {
	exe, err := os.Executable()
	if err != nil {
		return errors.Join(daemon.ErrCannotShare, err)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	client := daemon.Client{
		Place:   daemon.PlaceOf(env.files.Data, c.Files),
		Terms:   func() daemon.Terms { return sharingTerms(env, *c, named, f) },
		Host:    append([]string{exe}, append(env.args, "--"+hostFlag)...),
		Log:     filepath.Join(env.files.Data, "crashes.log"),
		Reload:  hangup,
		Profile: f.profile,
		Lost: func(err error) {
			log.Warn("the shared router has ended; another takes over", zap.Error(err))
			if now, usable, err := env.files.Read(c.Files, named); err == nil && usable { // else a shared router keeps what it has, too
				*c = now
			}
		},
		In: env.Streams[0].(*os.File), Out: env.Streams[1].(*os.File), Err: env.Streams[2].(*os.File), Memory: file, Stage: stage,
	}
	return client.Run(ctx)
}

// hostClients runs the shared router: it serves the clients that other processes hand
// over at the socket, until the last one has left.
func hostClients(ctx context.Context, env *environment, c config.Config, named bool, f serveFlags, socket *os.File) error {
	var lines daemon.Log
	env.Err = &lines
	log, err := env.Logger(zapcore.InfoLevel)
	if err != nil {
		return err
	}
	s := newService(env, c, named, f, log)
	s.Profile = "" // each client has its own
	said := &admin.Edits{Unwatched: f.noWatch}
	s.Admin.Edits = said
	s.Listeners = []service.Listener{func(ctx context.Context, r *adapter.Parts, m *server.Servers) error {
		h := daemon.Host{
			Size:  daemon.JournalSize,
			Terms: func() daemon.Terms { return sharingTerms(env, r.Configured(), named, f) },
			Reload: func() {
				select {
				case s.Hangup <- syscall.SIGHUP:
				default: // a reload is pending
				}
			},
			Serve: func(ctx context.Context, streams daemon.Streams) (done bool, err error) {
				defer lines.To(streams.Err)()
				out := pipe.Inherited(streams.Out)
				defer out.Close()
				journal := daemon.NewJournal(streams.Memory, streams.Stage)
				chosen, err := serverOf(m, streams.Profile)
				if err != nil {
					return true, err
				}
				err = chosen.Serve(ctx, pipe.Inherited(streams.In), out, journal)
				return journal.Closed(), err
			},
		}
		killed, err := h.Run(ctx, socket, requests(ctx, s.Pages))
		if killed {
			time.AfterFunc(lastMoment, func() { os.Exit(exit.Failed) })
		}
		if err == nil {
			err = service.ErrClientLeft
		}
		return err
	}}
	return runService(ctx, s)
}

// serverOf returns the server of clients that have chosen a profile, or none if it is "".
func serverOf(all *server.Servers, profile string) (*server.Server, error) {
	if profile == "" {
		return all.Default(), nil
	}
	s, ok := all.Of(profile)
	if !ok {
		return nil, fmt.Errorf("there is no profile %q any more; 'metarouter check' lists what is wrong", profile)
	}
	return s, nil
}

// sharingTerms returns what two clients must have in common to share a router: the same
// program with the same flags, in the same folder and the same environment, starts the
// same servers of an equal configuration.
func sharingTerms(env *environment, c config.Config, named bool, f serveFlags) daemon.Terms {
	_ = f.override(&c.Router) // as the router does with each configuration that it reads
	folder, _ := os.Getwd()
	var environment []string
	for _, s := range append(slices.Clip(c.Servers), config.Server{}) { // the last one gets the variables that all get
		environment = append(environment, supervisor.Inherited(os.Environ(), s)...)
	}
	environment = slices.DeleteFunc(environment, func(variable string) bool {
		return strings.HasPrefix(variable, "TERM=") || strings.HasPrefix(variable, "XDG_SESSION_")
	})
	environment = append(environment, telemetry.Environment()...)
	slices.Sort(environment)
	environment = slices.Compact(environment)
	return daemon.Terms{
		Place:   daemon.Hash(program(), os.Getuid(), daemon.Namespaces(), folder, env.files.Data, env.LogLevel, named, f.mode, f.names, f.cluster, f.noWatch, c.Files),
		Text:    c.Digest(),
		Servers: daemon.Hash(environment, c.Servers, c.Router),
	}
}
