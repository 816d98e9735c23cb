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
	// maxStarting is how many servers are named that are.
	maxStarting = 10
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
	var ready int
	var starting, failed []string
	for _, s := range all {
		switch s.State {
		case supervisor.Ready:
			ready++
		case supervisor.Starting:
			name := s.Name
			if s.Doing != "" {
				name += " (" + s.Doing + ")"
			}
			starting = append(starting, name)
		case supervisor.Restarting, supervisor.Failed, supervisor.NeedsAuth:
			failed = append(failed, s.Name)
		}
	}
	line = fmt.Sprintf("%d of %d servers ready", ready, ready+len(starting)+len(failed))
	if len(starting) > 0 {
		line += fmt.Sprintf(", %d starting: %s", len(starting), some(starting))
	}
	if len(failed) > 0 {
		line += fmt.Sprintf(", %d failed: %s", len(failed), some(failed))
	}
	return line, len(starting) == 0
}

func some(names []string) string {
	if more := len(names) - maxStarting; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxStarting], ", "), more)
	}
	return strings.Join(names, ", ")
}
