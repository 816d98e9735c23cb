package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
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
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	// hostFlag makes a process of serve the one that others share. It is started with
	// a listening socket as its file hostSocket.
	hostFlag   = "host-of-clients"
	hostSocket = 3

	// lastMoment is how long the servers have to end in order if the last client's
	// process was killed. Then the guard kills them.
	lastMoment = time.Second
)

// mayShare reports whether another process could serve the client on our streams. A
// person at a terminal has a router of its own.
func (a *app) mayShare() bool {
	if a.standalone || a.data == "" || !daemon.CanShare {
		return false
	}
	for _, stream := range a.streams {
		if _, ok := stream.(*os.File); !ok {
			return false
		}
	}
	return !isTerminal(a.streams[0]) && !isTerminal(a.streams[1])
}

// share has a shared router serve the client until it leaves. An error that wraps
// [daemon.ErrCannotShare] says that this process must; then the journal says where
// to go on, nil for a client that was never served.
func (a *app) share(ctx context.Context, c config.Config, named bool, f serveFlags, log *zap.Logger) (*server.Journal, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, errors.Join(daemon.ErrCannotShare, err)
	}
	memory, file, err := daemon.NewMemory(server.JournalSize)
	if err != nil {
		return nil, errors.Join(daemon.ErrCannotShare, err)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	client := daemon.Client{
		Place:  daemon.PlaceOf(a.data, c.Files),
		Terms:  func() daemon.Terms { return a.terms(c, named, f) },
		Host:   append([]string{exe}, append(a.args, "--"+hostFlag)...),
		Log:    filepath.Join(a.data, "crashes.log"),
		Reload: hangup,
		Lost: func(err error) {
			log.Warn("the shared router has ended; another takes over", zap.Error(err))
			if now, err := config.Load(c.Files...); err == nil { // else a host keeps to what it has, too
				c = now
			}
		},
		In: a.streams[0].(*os.File), Out: a.streams[1].(*os.File), Err: a.streams[2].(*os.File), Memory: file,
	}
	return server.NewJournal(memory), client.Run(ctx)
}

// host serves the clients that other processes hand over, until the last has left.
func (a *app) host(ctx context.Context, c config.Config, named bool, f serveFlags) error {
	var lines daemon.Log
	a.stderr = &lines
	log, err := a.log(zapcore.InfoLevel)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	face := face{app: a, config: c, named: named, flags: f, log: log, hangup: hangup, pages: http.NewServeMux()}
	face.doors = []door{func(ctx context.Context, router *adapter.Router, s *server.Server) error {
		h := daemon.Host{
			Size: server.JournalSize,
			Terms: func() daemon.Terms {
				now := router.Configured()
				now.Router = c.Router // it takes effect at the start only
				return a.terms(now, named, f)
			},
			Reload: func() {
				select {
				case hangup <- syscall.SIGHUP:
				default: // one is on its way
				}
			},
			Serve: func(ctx context.Context, streams daemon.Streams) (done bool, err error) {
				defer lines.To(streams.Err)()
				out := pipe.Inherited(streams.Out)
				defer out.Close()
				journal := server.NewJournal(streams.Memory)
				err = s.Serve(ctx, pipe.Inherited(streams.In), out, journal)
				return journal.Closed(), err
			},
		}
		mux := http.NewServeMux()
		a.carryOut(mux, router)
		mux.Handle("/", during(ctx, face.pages))
		killed, err := h.Run(ctx, os.NewFile(hostSocket, "socket"), mux)
		if killed {
			time.AfterFunc(lastMoment, func() { os.Exit(exitFailed) })
		}
		if err == nil {
			err = errLeft
		}
		return err
	}}
	return face.serve(ctx)
}

// terms are what two clients must have in common to share a router: the same
// program with the same flags in the same folder starts the same servers, in the
// same environment, of a configuration that says the same.
func (a *app) terms(c config.Config, named bool, f serveFlags) daemon.Terms {
	folder, _ := os.Getwd()
	var inherit []string
	for _, s := range c.Servers {
		inherit = append(inherit, s.InheritEnv...)
	}
	var environment []string
	for _, variable := range supervisor.Inherited(os.Environ(), inherit) {
		if !strings.HasPrefix(variable, "TERM=") && !strings.HasPrefix(variable, "XDG_SESSION_") {
			environment = append(environment, variable)
		}
	}
	slices.Sort(environment)
	return daemon.Terms{
		Place:   hash(program(), os.Getuid(), namespaces(), folder, a.data, a.logLevel, named, f.mode, f.names, f.noWatch, c.Files),
		Text:    c.Digest(),
		Servers: hash(environment, c.Servers, c.Router),
	}
}

// namespaces tell containers apart, in which the same path may be another folder.
// There are none but on Linux.
func namespaces() (all []string) {
	for _, kind := range []string{"mnt", "net", "pid", "user"} {
		name, _ := os.Readlink("/proc/self/ns/" + kind)
		all = append(all, name)
	}
	return all
}

// hash is over values that are JSON.
func hash(values ...any) string {
	said, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
}
