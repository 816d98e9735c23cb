package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
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

// Watch shows the servers until ctx ends. They belong to the running router, and to
// the next one if that ends. If no router runs at first, they are started for that.
func Watch(ctx context.Context, e *Env) error {
	watching := false
	err := e.ask(ctx, need{peek: true}, func(ctx context.Context, c *apiClient) error {
		watching, c.watching = true, true
		ctx, cancel := context.WithCancel(ctx)
		var starting sync.WaitGroup
		defer starting.Wait()
		defer cancel()
		if c.alone != nil {
			if !e.Standalone {
				e.Note("no router runs with this configuration; starting the servers until Ctrl-C")
			}
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
func (c *apiClient) look(ctx context.Context) (rows []exposure.ServerRow, note string) {
	ctx, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()
	if c.alone == nil {
		if c.routers = c.running(ctx, c.config); len(c.routers) == 0 {
			return nil, "no router runs any more; waiting for the next one"
		}
	}
	var answer admin.Servers
	notes, err := c.exchange(ctx, c.routers[0], "/dashboard/servers", nil, &answer)
	if err != nil {
		return nil, err.Error()
	}
	return answer.Servers, strings.Join(notes, "\n")
}

// watchServers shows the servers, until ctx ends or its reader has left.
func watchServers(ctx context.Context, c *apiClient) error {
	w, noted := watcher{c, make(map[string]exposure.ServerRow)}, ""
	for {
		rows, note := c.look(ctx)
		if ctx.Err() != nil || !c.HasReader() {
			return nil
		}
		if note != noted {
			if noted = note; note != "" {
				c.Note("%s", note)
			}
		}
		if rows != nil {
			if err := w.printChanges(rows); err != nil {
				return err
			}
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
}

// A change is a line of --watch --json.
type change struct {
	Time time.Time `json:"time"`
	exposure.ServerRow
}

// printChanges prints a line for each server that is not as the last line about it said. The text of an error,
// which may count the seconds of a start, and counts of repairs are no change.
func (w *watcher) printChanges(rows []exposure.ServerRow) error {
	gone := maps.Clone(w.shown)
	for _, s := range rows {
		delete(gone, s.Name)
		if s.State == string(status.Starting) {
			s.LastError = "" // it says how long the start has taken so far
		}
		now := s
		now.LastError, now.Problem, now.Repairs = "", "", ""
		if last, ok := w.shown[s.Name]; ok && last == now {
			continue
		}
		w.shown[s.Name] = now
		if err := w.print(s); err != nil {
			return err
		}
	}
	for name := range gone {
		delete(w.shown, name)
		if err := w.print(exposure.ServerRow{Name: name, State: "removed"}); err != nil {
			return err
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
