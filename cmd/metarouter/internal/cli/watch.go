package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// watchEvery is the time between two looks of --watch at the servers.
	watchEvery = 500 * time.Millisecond

	// watchAnswer is how long a running router has to say how its servers are.
	watchAnswer = 10 * time.Second
)

// maxReason is how many characters of an error a line has.
const maxReason = 120

// errNoRouter says that the router that --watch asks has ended.
var errNoRouter = errors.New("no router runs any more; waiting for the next one")

// Watch shows the servers until ctx ends. They belong to the running router, and to
// the next one if that ends. If no router runs at first, they are started for that.
func Watch(ctx context.Context, e *Env) error {
	watching := false
	alone := func(*config.Config) error {
		if !e.Standalone {
			e.Note("no router runs with this configuration; starting the servers until Ctrl-C")
		}
		return nil
	}
	err := e.ask(ctx, need{peek: true, alone: alone}, func(ctx context.Context, c *apiClient) error {
		watching = true
		ctx, cancel := context.WithCancel(ctx)
		var starting sync.WaitGroup
		defer starting.Wait()
		defer cancel()
		if c.alone != nil {
			starting.Go(func() { c.alone.Try(ctx) })
		}
		return watchServers(ctx, c)
	})
	if watching && errors.Is(err, console.Interrupted) {
		return nil // this is how it ends
	}
	return err
}

// look returns the servers as they are now, and the notes of the router on its configuration, or why
// that is unknown. It asks the next router if one has ended.
func (c *apiClient) look(ctx context.Context) (rows []exposure.ServerRow, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()
	parameters := c.parameters()
	if c.alone == nil {
		parameters.Set("wait", "1")
		if c.routers = c.running(ctx, c.config); len(c.routers) == 0 {
			return nil, "", errNoRouter
		}
	}
	var answer admin.Servers
	notes, err := c.exchange(ctx, c.routers[0], http.MethodGet, "/dashboard/servers?"+c.encode(parameters), nil, &answer)
	return answer.Servers, plain.Line(strings.Join(notes, "\n")), err
}

// watchServers shows the servers, until ctx ends or its reader has left.
func watchServers(ctx context.Context, c *apiClient) error {
	w := watcher{apiClient: c, shown: make(map[string]exposure.ServerRow)}
	for {
		rows, note, err := c.look(ctx)
		if ctx.Err() != nil || !c.HasReader() {
			return nil
		}
		if err == nil && note != w.note {
			if w.note = note; note != "" {
				c.Note("%s", note)
			}
		}
		if err := w.printChanges(rows, err); err != nil {
			return err
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

type watcher struct {
	*apiClient
	shown map[string]exposure.ServerRow // by name, as the last line about each said
	note  string                        // of the router, at the last look
	fault string                        // why the servers were unknown at the last look
}

// A change is a line of --watch --json.
type change struct {
	Time time.Time `json:"time"`
	exposure.ServerRow
}

// waitsFor matches the text in place of the last error while a server waits: a step of its start,
// and for how long already, which changes all the time.
var waitsFor = lazy.Regexp(`^(waiting|\S+ is (fetching|looking))\b.*, for [0-9][0-9hms.]*$`)

// printChanges prints a line for each server that is not as the last line about it said.
func (w *watcher) printChanges(rows []exposure.ServerRow, unknown error) error {
	if unknown != nil {
		if w.fault != unknown.Error() {
			w.fault = unknown.Error()
			w.Note("%s", w.fault)
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
		now := s
		now.Repairs = "" // counts, which calls change
		if last, ok := w.shown[s.Name]; ok && last == now {
			continue
		}
		w.shown[s.Name] = now
		if err := w.print(s); err != nil {
			return err
		}
	}
	for name := range w.shown {
		if !slices.Contains(names, name) {
			delete(w.shown, name)
			if err := w.print(exposure.ServerRow{Name: name, State: "removed"}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watcher) print(s exposure.ServerRow) error {
	if w.JSON {
		e := json.NewEncoder(plain.NewEscaper(w.Raw))
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
		line += "; last error: " + console.Cut(plain.Line(s.LastError), maxReason)
	}
	_, err := fmt.Fprintln(w.Out, plain.Line(line))
	return err
}
