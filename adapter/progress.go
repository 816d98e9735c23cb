package adapter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	// progressEvery is how often it is looked whether servers are still starting, and
	// progressAgain how often that is said if nothing else has changed.
	progressEvery = 3 * time.Second
	progressAgain = 15 * time.Second
	// maxNamed is how many servers are named that are the same way.
	maxNamed = 5
)

// progress says in the log which servers are starting, until none is: the first start
// ever may take minutes, while packages are fetched.
func (r *Router) progress(ctx context.Context) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	last, said := "", time.Time{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		line, settled := summary(r.supervisor.Status())
		switch {
		case settled && last == "":
			return
		case line != last || time.Since(said) >= progressAgain:
			r.log.Info(line)
			last, said = line, time.Now()
		}
		if settled {
			return
		}
	}
}

// summary says in a line how many servers are ready, and which are not. Those that
// nobody wants to run are left out. settled reports whether none is starting.
func summary(all []supervisor.Status) (line string, settled bool) {
	var ready, starting int
	var doings, failed []string
	names := make(map[string][]string) // of those that start, by what they wait for
	for _, s := range all {
		switch s.State {
		case supervisor.Ready:
			ready++
		case supervisor.Starting:
			if starting++; names[s.Doing] == nil {
				doings = append(doings, s.Doing)
			}
			names[s.Doing] = append(names[s.Doing], s.Name)
		case supervisor.Restarting, supervisor.Failed, supervisor.NeedsAuth:
			failed = append(failed, s.Name)
		}
	}
	line = fmt.Sprintf("%d of %d servers ready", ready, ready+starting+len(failed))
	if len(failed) > 0 {
		line += fmt.Sprintf(", %d failed: %s", len(failed), some(failed))
	}
	for i, doing := range doings {
		sep := ", "
		if i == 0 {
			sep = fmt.Sprintf(", %d starting: ", starting)
		}
		line += sep + some(names[doing])
		if doing != "" {
			line += " (" + doing + ")"
		}
	}
	return line, starting == 0
}

func some(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
