package adapter

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	// progressEvery is the time between two looks at the servers, and progressAgain the
	// time between two log lines that say the same.
	progressEvery = 3 * time.Second
	progressAgain = 15 * time.Second
	// maxNamed is how many servers of one state are named.
	maxNamed = 5
)

// logStarts logs which servers are starting, until all have started or failed. The first start may
// take minutes, while packages are downloaded.
func logStarts(ctx context.Context, s *supervisor.Supervisor, log *zap.Logger) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	last, said := "", time.Time{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		line, settled := summary(s.Status())
		if !(settled && last == "") && (line != last || time.Since(said) >= progressAgain) {
			log.Info(line)
			last, said = line, time.Now()
		}
		if settled {
			return
		}
	}
}

// summary returns a line with the number of servers that are ready and the names of others, without
// disabled servers. settled reports whether no server is starting.
func summary(all []status.Status) (line string, settled bool) {
	var ready, starting int
	var doings, failed []string
	names := make(map[string][]string) // of starting servers, by the reason of the wait
	for _, s := range all {
		switch s.State {
		case status.Ready:
			ready++
		case status.Starting:
			if starting++; names[s.Doing] == nil {
				doings = append(doings, s.Doing)
			}
			names[s.Doing] = append(names[s.Doing], s.Name)
		case status.Restarting, status.Failed, status.NeedsAuth:
			failed = append(failed, s.Name)
		}
	}
	line = fmt.Sprintf("%d of %s ready", ready, prose.Count(ready+starting+len(failed), "server"))
	if len(failed) > 0 {
		line += fmt.Sprintf(", %d failed: %s", len(failed), prose.List(failed, maxNamed))
	}
	for i, doing := range doings {
		sep := ", "
		if i == 0 {
			sep = fmt.Sprintf(", %d starting: ", starting)
		}
		line += sep + prose.List(names[doing], maxNamed)
		if doing != "" {
			line += " (" + doing + ")"
		}
	}
	return line, starting == 0
}
