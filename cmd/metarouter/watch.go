package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

const (
	// watchEvery is the time between two looks of --watch at the servers.
	watchEvery = 500 * time.Millisecond

	// watchAnswer is how long a running router has to say how its servers are.
	watchAnswer = 10 * time.Second
)

// errNoRouter says that the router that --watch asks has ended.
var errNoRouter = errors.New("no router runs any more; waiting for the next one")

// A look returns the servers as they are now, and what the router notes about its
// configuration, or why that is unknown.
type look func(context.Context) (rows []progress.Row, note string, err error)

// runWatch shows the servers until ctx ends. They are those of the running router, and of
// the next one if that ends. If none runs at first, they are started for that.
func runWatch(ctx context.Context, env *environment) error {
	if env.running != nil {
		return exit.Usage(errors.New("a router can't watch its servers for another process"))
	}
	c, _, err := env.files.Locate() // to ask a router starts nothing, and needs no trust
	if err != nil && !configfile.IsMistake(err) {
		return err
	}
	ask := func(ctx context.Context) ([]progress.Row, string, error) { return askServers(ctx, env, c) }
	if !env.standalone {
		if _, _, err := ask(ctx); !errors.Is(err, errNoRouter) {
			return watchServers(ctx, env, ask)
		}
	}
	if c, err = loadConfig(ctx, env); err != nil {
		return err
	}
	if !env.standalone {
		env.Note("no router runs with this configuration; starting the servers until Ctrl-C")
	}
	err = env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		ctx, cancel := context.WithCancel(ctx)
		var starting sync.WaitGroup
		defer starting.Wait()
		defer cancel()
		starting.Go(func() { r.Try(ctx) })
		return watchServers(ctx, env, func(context.Context) ([]progress.Row, string, error) {
			return progress.RowsOf(r.Servers()), "", nil
		})
	})
	if errors.Is(err, exit.Interrupted) {
		return nil // this is how it ends
	}
	return err
}

// askServers asks the running router for its servers, and for what it notes about them.
func askServers(ctx context.Context, env *environment, c config.Config) (rows []progress.Row, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()
	o, ok, err := daemon.Run(ctx, daemon.PlaceOf(env.files.Data, c.Files), daemon.Command{Program: program(), Args: []string{"servers", "--json"}}, false)
	if err != nil {
		return nil, "", err
	} else if !ok {
		return nil, "", errNoRouter
	}
	var all []server.ServerRow
	if err := json.Unmarshal(o.Stdout, &all); err != nil {
		return nil, "", fmt.Errorf("the running router's answer: %w", err)
	}
	rows = make([]progress.Row, len(all))
	for i, s := range all {
		rows[i] = progress.Row{ServerRow: s}
	}
	return rows, plain.Line(strings.TrimSpace(string(o.Stderr))), nil
}

// watchServers shows what now returns, until ctx ends or no one reads it.
func watchServers(ctx context.Context, env *environment, now look) error {
	w := watcher{env: env, shown: make(map[string]server.ServerRow)}
	if screen, ok := terminal.Open(env.Streams[1], os.Getenv); ok && !env.JSON {
		return w.draw(ctx, screen, now)
	}
	for {
		rows, note, err := now(ctx)
		if ctx.Err() != nil || !env.HasReader() {
			return nil
		}
		if err == nil && note != w.note {
			if w.note = note; note != "" {
				env.Note("%s", note)
			}
		}
		if err := w.printChanges(rows, err); err != nil {
			return err
		}
		if !pause(ctx, watchEvery) {
			return nil
		}
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A watcher shows servers that change.
type watcher struct {
	env   *environment
	shown map[string]server.ServerRow // by name, as the last line about each said
	note  string                      // what the router noted at the last look
	fault string                      // why the servers were unknown at the last look
}

// draw shows the servers on the screen in their place, and leaves the last table there.
func (w *watcher) draw(ctx context.Context, screen *terminal.Screen, now look) error {
	var mu sync.Mutex
	var rows []progress.Row
	var note string
	var fault error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := true; again; again = pause(ctx, watchEvery) {
			next, noted, err := now(ctx)
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			rows, note, fault = next, noted, err
			mu.Unlock()
		}
	}()
	screen.Live(done, 0, func(_ time.Time, width, height int) []string {
		mu.Lock()
		defer mu.Unlock()
		if fault != nil {
			return []string{terminal.Cut(fault.Error(), width)}
		}
		if note != "" {
			return append(progress.Watched(rows, width, height-1, screen.Colours()), terminal.Cut(note, width))
		}
		return progress.Watched(rows, width, height, screen.Colours())
	})
	<-done
	if fault != nil {
		return nil
	}
	if note != "" {
		w.env.Note("%s", note)
	}
	return printServerRows(w.env, rows)
}

// A change is a line of --watch --json.
type change struct {
	Time time.Time `json:"time"`
	server.ServerRow
}

// waitsFor matches what stands for the last error while a server waits: a step of its start,
// and for how long already, which changes all the time.
var waitsFor = lazy.Regexp(`^(waiting|\S+ is (fetching|looking))\b.*, for [0-9][0-9hms.]*$`)

// printChanges prints a line for each server that is not as the last line about it said.
func (w *watcher) printChanges(rows []progress.Row, unknown error) error {
	if unknown != nil {
		if w.fault != unknown.Error() {
			w.fault = unknown.Error()
			w.env.Note("%s", w.fault)
		}
		return nil
	}
	w.fault = ""
	var names []string
	for _, s := range rows {
		names = append(names, s.Name)
		if s.State == string(status.Starting) || waitsFor().MatchString(s.LastError) {
			s.LastError = "" // it says how long the start has taken so far
		}
		if last, ok := w.shown[s.Name]; ok && last == s.ServerRow {
			continue
		}
		w.shown[s.Name] = s.ServerRow
		if err := w.print(s.ServerRow); err != nil {
			return err
		}
	}
	for name := range w.shown {
		if !slices.Contains(names, name) {
			delete(w.shown, name)
			if err := w.print(server.ServerRow{Name: name, State: "removed"}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watcher) print(s server.ServerRow) error {
	if w.env.JSON {
		e := json.NewEncoder(plain.NewEscaper(w.env.Raw))
		e.SetEscapeHTML(false)
		return e.Encode(change{time.Now(), s})
	}
	words := []string{s.State}
	if s.Tools > 0 {
		words = append(words, console.Counted(s.Tools, "tool"))
	}
	if s.Restarts > 0 {
		words = append(words, console.Counted(s.Restarts, "restart"))
	}
	if s.PID > 0 {
		words = append(words, fmt.Sprintf("PID %d", s.PID))
	}
	line := fmt.Sprintf("%s %s: %s", time.Now().Format(time.TimeOnly), s.Name, strings.Join(words, ", "))
	if s.LastError != "" {
		line += "; last error: " + oneshot.Reason(s.LastError)
	}
	_, err := fmt.Fprintln(w.env.Out, plain.Line(line))
	return err
}
