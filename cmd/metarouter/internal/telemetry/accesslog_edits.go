package telemetry

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/selector"
)

// closeTime is how long the last lines of an access log that an edit replaces may take to
// be written.
const closeTime = 5 * time.Second

// An EditedAccessLog is the access log of a configuration that is edited while the router
// runs. It is an observer of a selector.
type EditedAccessLog struct {
	log *zap.Logger

	mu      sync.RWMutex // guards the fields below; a call holds it while its line is queued
	options config.AccessLog
	current *AccessLog // nil if there is none
	dropped int64      // lines of earlier logs that were not written
	secrets recent     // that are in no configuration; at most maxSecrets
	tokens  recent     // of logins; at most maxTokens
}

// Hide has the log, and later ones, hide secrets that are in no configuration.
func (l *EditedAccessLog) Hide(secrets []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range secrets {
		l.secrets.add(one, maxSecrets)
	}
	if l.current != nil {
		l.current.Hide(secrets)
	}
}

// HideToken has the log, and later ones, hide a token of a login.
func (l *EditedAccessLog) HideToken(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens.add(token, maxTokens)
	if l.current != nil {
		l.current.HideToken(token)
	}
}

// OpenEditedAccessLog opens the log that the configuration names, if it names one. It must
// be closed.
func OpenEditedAccessLog(c config.Config, log *zap.Logger) (*EditedAccessLog, error) {
	l := &EditedAccessLog{log: log, options: c.Router.AccessLog}
	if l.options.File == "" {
		return l, nil
	}
	var err error
	l.current, err = OpenAccessLog(c, log)
	return l, err
}

// Edit goes on with the log of an edited configuration. If that can't be opened, the
// current log stays in use.
func (l *EditedAccessLog) Edit(c config.Config) {
	l.mu.RLock()
	same := l.options == c.Router.AccessLog
	l.mu.RUnlock()
	if same {
		return
	}
	var next *AccessLog
	if c.Router.AccessLog.File != "" {
		var err error
		if next, err = OpenAccessLog(c, l.log); err != nil {
			l.log.Warn(`the edit of "accessLog" can't be used; the access log stays as it was`, zap.Error(err))
			return
		}
	}
	l.mu.Lock()
	if next != nil {
		next.Hide(l.secrets)
		next.mask.addTokens(l.tokens)
	}
	before := l.current
	l.current, l.options = next, c.Router.AccessLog
	l.mu.Unlock()
	if before == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	before.Close(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped += before.Dropped()
}

// Learn hides the secrets of a configuration from now on.
func (l *EditedAccessLog) Learn(c config.Config) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current != nil {
		l.current.Learn(c)
	}
}

// Dropped returns how many lines were not written: the disk was full, or slower than the
// calls.
func (l *EditedAccessLog) Dropped() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current == nil {
		return l.dropped
	}
	return l.dropped + l.current.Dropped()
}

// Close writes the lines that wait, until ctx ends.
func (l *EditedAccessLog) Close(ctx context.Context) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current != nil {
		l.current.Close(ctx)
	}
}

// Executed implements [selector.Observer].
func (l *EditedAccessLog) Executed(e selector.Execution) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current != nil {
		l.current.Executed(e)
	}
}

// Searched implements [selector.Observer]. Searches are not logged.
func (*EditedAccessLog) Searched(selector.Search) {}
