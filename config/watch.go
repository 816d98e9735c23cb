package config

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	quiet    = 100 * time.Millisecond // without an event, before the files are read
	maxQuiet = time.Second            // from the first event on
)

// Watch sends a new Config to out each time the files of initial, or an envFile
// that they name, come to say something else. It blocks until ctx ends, and
// then returns nil, which is all that it ever returns: where the system tells
// of no changes, the files are read every two seconds.
//
// initial is what the receiver has already; an edit made since it was loaded is
// sent too. The latest Config wins: one that the receiver has not taken yet is
// replaced. A bad edit, which includes a missing file, is logged, and the
// receiver keeps what it has. judged is told of each reading of the files whether they
// could be used: with the reason why they could not, or nil.
func Watch(ctx context.Context, initial Config, out chan<- Config, judged func(error), log *zap.Logger) error {
	w := newWatcher(log)
	defer w.close()

	sent, latest := initial, initial
	var pending chan<- Config // out, while the receiver lacks latest
	var complained string     // about the edit that is in the files now

	var settled <-chan time.Time // fires once the files have come to rest
	var deadline time.Time       // by which it does
	disturb := func() {
		if settled == nil {
			deadline = time.Now().Add(maxQuiet)
		}
		settled = time.After(min(quiet, time.Until(deadline)))
	}
	reload := func() {
		settled = nil
		w.follow(filesOf(latest)) // before reading, so that no edit falls in between
		next, err := Load(initial.Files...)
		judged(err)
		if err != nil {
			if err.Error() != complained {
				log.Warn("bad config, keeping the one in use", zap.Error(err))
			}
			complained = err.Error()
			return
		}
		complained = ""
		log.Debug("config read", zap.Int("servers", len(next.Servers)), zap.Int("problems", len(next.Problems)))
		if w.follow(filesOf(next)) {
			disturb() // an envFile was read before it was watched
		}
		latest, pending = next, out
		if next.Equal(sent) {
			pending = nil
		}
	}

	reload()
	for {
		select {
		case <-ctx.Done():
			return nil
		case pending <- latest:
			sent, pending = latest, nil
		case event := <-w.events:
			if w.concerns(event) {
				disturb()
			}
		case err := <-w.errors:
			log.Warn("watching config", zap.Error(err)) // events may have been lost
			disturb()
		case <-settled:
			reload()
		case <-w.poll:
			reload()
		}
	}
}

// filesOf are all files that say something in c.
func filesOf(c Config) []string {
	files := slices.Clone(c.Files)
	for _, s := range c.Servers {
		if s.EnvFile != "" {
			files = append(files, s.EnvFile)
		}
	}
	return files
}
