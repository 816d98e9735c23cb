package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	checkInterval  = 10 * time.Second
	checkTimeout   = 3 * time.Second
	reconnectAfter = 30 * time.Second // for permissions that may have changed
	forget         = time.Minute      // after which a problem that did not come again is gone

	maxDenied = 20  // subjects
	maxText   = 300 // bytes of an error

	fullPayload = 1 << 20 // NATS's default limit of a message, in bytes
)

// A State is how the connection to NATS is.
type State struct {
	Connected bool
	Epoch     uint64 // counts connections, from 1; 0 before the first

	// Of the current connection, or the last one.
	URL        string // of the server, without credentials
	Server     string // its version
	TLS        bool
	RoundTrip  time.Duration // measured lately; 0 before
	MaxPayload int64         // bytes of a message

	// Err is why there is no connection; nil if there is one, or before the first attempt. It shows
	// no credentials, and wraps the error of nats.go.
	Err error

	// Denied are subjects that the permissions refuse, such as "publish to $JS.API.INFO".
	Denied []string
	// Problems are sentences, each a problem and its solution, without credentials.
	Problems []string
}

// state is a State as it is collected.
type state struct {
	State
	loggedAt    time.Time // when a failure was logged
	connectedAt time.Time
	denied      []string
}

// State returns how the connection is.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state.State
	s.Denied = slices.Clone(l.state.denied)
	s.Problems = l.problems(&l.state)
	return s
}

// Changed returns a channel that is closed at the next change of the state but for the time of a
// round trip.
func (l *Link) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed.Next()
}

func (l *Link) edit(change func(s *state)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.state)
	l.changed.Notify()
}

// problems returns the problems as sentences.
func (l *Link) problems(s *state) (all []string) {
	add := func(format string, arguments ...any) { all = append(all, fmt.Sprintf(format, arguments...)) }
	switch {
	case !s.Connected && s.Err != nil:
		add("There is no connection to NATS: %v.", s.Err)
	case !s.Connected:
		add("There is no connection to NATS yet.")
	}
	if s.Connected && older(s.Server, 2, 11) {
		add("The NATS server has version %s; a cluster needs 2.11 or later.", s.Server)
	}
	if s.Connected && s.MaxPayload > 0 && s.MaxPayload < fullPayload {
		add("The NATS server takes messages of %d bytes only; set max_payload to %d or more, or a node that shares many servers can't announce them.", s.MaxPayload, fullPayload)
	}
	for _, subject := range s.denied {
		add("The permissions of NATS do not let this router %s; allow it %q.", subject, l.permission(subject))
	}
	return all
}

// permission returns which subjects a node needs, of those that one belongs to. subject is as in
// Denied.
func (l *Link) permission(subject string) string {
	verb, subject, _ := strings.Cut(subject, " to ")
	streams := l.prefix + "stream."
	switch {
	case strings.HasPrefix(subject, streams) && verb == "subscribe":
		return streams + l.options.Key + ".>"
	case strings.HasPrefix(subject, streams):
		return streams + "*.*." + l.options.Key + ".>"
	case strings.HasPrefix(subject, l.prefix+"beat."):
		return l.prefix + "beat.*"
	}
	for _, all := range []string{"$JS.API.", "$JS.FC.", "_INBOX.", "$SRV."} {
		if strings.HasPrefix(subject, all) {
			return all + ">"
		}
	}
	if parts := strings.SplitN(subject, ".", 3); parts[0] == "$KV" && len(parts) == 3 {
		return parts[0] + "." + parts[1] + "." + l.options.Key + ".>"
	}
	return subject
}

// older reports whether the version of a server is older than major.minor.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// connected notes a connection that was made.
func (l *Link) connected(conn *nats.Conn) {
	l.adopt(conn)
	if last := l.dialer.count.Load(); conn.IsConnected() {
		l.up.Store(last)
	}
	_, err := conn.TLSConnectionState()
	url, version, size := l.masked.clean(conn.ConnectedUrlRedacted()), conn.ConnectedServerVersion(), conn.MaxPayload()
	l.edit(func(s *state) {
		s.State = State{Connected: true, Epoch: s.Epoch + 1, URL: url, Server: version, TLS: err == nil, MaxPayload: size}
		s.denied, s.connectedAt = nil, time.Now()
	})
	l.options.Log.Info("connected to NATS", zap.String("url", url), zap.String("version", version))
	signal.Leave(l.check)
}

var errLost = errors.New("the connection was lost")

// disconnected notes that the connection was lost.
func (l *Link) disconnected(err error) {
	if err == nil {
		err = errLost
	}
	err = l.explained(err)
	l.edit(func(s *state) {
		if s.Connected && l.dialer.ctx.Err() == nil { // else it was closed
			l.options.Log.Warn("lost the connection to NATS", zap.Error(err))
			s.Err = err
		}
		s.Connected, s.RoundTrip = false, 0
	})
}

// failed notes why an attempt to connect failed.
func (l *Link) failed(err error) {
	err = l.explained(err)
	l.mu.Lock()
	same := l.state.Connected || l.state.Err != nil && l.state.Err.Error() == err.Error()
	l.mu.Unlock()
	if same {
		return
	}
	l.edit(func(s *state) {
		s.Err = err
		if now := time.Now(); now.Sub(s.loggedAt) > forget { // reasons may alternate
			s.loggedAt = now
			l.options.Log.Warn("no connection to NATS", zap.Error(err))
		}
	})
}

// refused matches the error of NATS about a subject that the permissions refuse.
var refused = lazy.Regexp(`(?i)permissions violation for (publish|subscription) to "?([^\s"]+)`)

// denied notes a subject that the permissions refuse.
func (l *Link) denied(err error) {
	found := refused().FindStringSubmatch(err.Error())
	if found == nil {
		return
	}
	what := "publish to "
	if strings.EqualFold(found[1], "subscription") {
		what = "subscribe to "
	}
	what += short(found[2])
	l.mu.Lock()
	known := slices.Contains(l.state.denied, what) || len(l.state.denied) >= maxDenied
	l.mu.Unlock()
	if known {
		return
	}
	l.edit(func(s *state) { s.denied = append(s.denied, what) })
	l.options.Log.Warn("the permissions of NATS refuse an operation of this router", zap.String("refused", what))
}

// examine measures the connection from time to time.
func (l *Link) examine(ctx context.Context) {
	for {
		select {
		case <-l.check:
		case <-time.After(checkInterval):
		case <-ctx.Done():
			return
		}
		now := l.using.Load()
		if now == nil || !l.Up() {
			continue
		}
		l.reconnectIfRefused(now.conn)
		flushing, cancel := context.WithTimeout(ctx, checkTimeout)
		began := time.Now()
		if now.conn.FlushWithContext(flushing) == nil {
			l.mu.Lock()
			l.state.RoundTrip = time.Since(began)
			l.mu.Unlock()
		}
		cancel()
	}
}

// reconnectIfRefused connects again if NATS has refused a subscription that streams need: it
// forgets such a subscription, and the permissions may have changed.
func (l *Link) reconnectIfRefused(conn *nats.Conn) {
	l.mu.Lock()
	refused := slices.ContainsFunc(l.state.denied, func(what string) bool {
		return strings.HasPrefix(what, "subscribe to "+l.prefix+"stream.")
	})
	due := refused && time.Since(l.state.connectedAt) > reconnectAfter
	l.mu.Unlock()
	if due {
		_ = conn.ForceReconnect() // fails for a closed connection only
	}
}
