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

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	checkInterval = 10 * time.Second
	checkTimeout  = 3 * time.Second
	forget        = time.Minute // after which a problem that did not come again is gone

	maxDenied = 20  // subjects
	maxText   = 300 // bytes of an error
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
	JetStream  bool          // it answered lately

	// Err is why there is no connection; nil if there is one, or before the first attempt. It shows
	// no credentials, and wraps the error of nats.go.
	Err error

	// Denied are subjects that the permissions refuse, such as "publish to metarouter.office.to.U…".
	Denied []string
	// Problems are sentences, each a problem and its solution, without credentials.
	Problems []string
}

// state is a State as it is collected.
type state struct {
	State
	loggedAt time.Time // when a failure was logged
	streams  string    // why there is no JetStream; "" before this is known
	denied   []string
	slowAt   time.Time // when frames were dropped
	dropped  int
	other    frame.VersionError // of the last frame of another version, at
	otherAt  time.Time
}

// State returns how the connection is.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state.State
	s.Denied = slices.Clone(l.state.denied)
	s.Problems = l.state.problems(l.prefix)
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
func (s *state) problems(prefix string) (all []string) {
	add := func(format string, arguments ...any) { all = append(all, fmt.Sprintf(format, arguments...)) }
	switch {
	case !s.Connected && s.Err != nil:
		add("There is no connection to NATS: %v.", s.Err)
	case !s.Connected:
		add("There is no connection to NATS yet.")
	case s.streams != "":
		add("JetStream does not answer, so that the servers of other nodes do not change: %s.", s.streams)
	}
	if s.Connected && older(s.Server, 2, 11) {
		add("The NATS server has version %s; a cluster needs 2.11 or later.", s.Server)
	}
	if s.Connected && s.MaxPayload > 0 && s.MaxPayload < frame.MaxFrame {
		add("The NATS server takes messages of %d bytes only; set max_payload to %d or more, or large definitions of tools are left out.", s.MaxPayload, frame.MaxFrame)
	}
	for _, subject := range s.denied {
		add("The permissions of NATS do not let this router %s; allow it %q.", subject, permission(subject, prefix))
	}
	if !s.slowAt.IsZero() && time.Since(s.slowAt) < forget {
		add("Frames came faster than this router reads them, and %d were dropped.", s.dropped)
	}
	if !s.otherAt.IsZero() && time.Since(s.otherAt) < forget {
		add("Another node runs another major version: %s.", &s.other)
	}
	return all
}

// permission returns which subjects a node needs, of those that one belongs to. subject is as in
// Denied.
func permission(subject, prefix string) string {
	verb, subject, _ := strings.Cut(subject, " to ")
	if to, ok := strings.CutPrefix(subject, prefix+"to."); ok {
		if key, _, _ := strings.Cut(to, "."); verb == "subscribe" {
			return prefix + "to." + key + ".>"
		}
		return prefix + "to.>"
	}
	if strings.HasPrefix(subject, prefix+beats) { // all beats, or those in its own name
		return subject
	}
	for _, all := range []string{"$JS.API.", "$JS.FC.", "_INBOX."} {
		if strings.HasPrefix(subject, all) {
			return all + ">"
		}
	}
	if parts := strings.SplitN(subject, ".", 3); parts[0] == "$KV" && len(parts) == 3 {
		return parts[0] + "." + parts[1] + ".>"
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
		l.limit.Store(conn.MaxPayload())
	}
	_, err := conn.TLSConnectionState()
	url, version, size := l.masked.clean(conn.ConnectedUrlRedacted()), conn.ConnectedServerVersion(), conn.MaxPayload()
	l.edit(func(s *state) {
		s.State = State{Connected: true, Epoch: s.Epoch + 1, URL: url, Server: version, TLS: err == nil, MaxPayload: size}
		s.streams, s.denied = "", nil
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
		s.Connected, s.JetStream, s.RoundTrip = false, false, 0
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

// slow notes that frames were dropped because they came too fast.
func (l *Link) slow(sub *nats.Subscription) {
	dropped, _ := sub.Dropped()
	l.options.Counts.Dropped(count.Overflow)
	l.edit(func(s *state) { s.slowAt, s.dropped = time.Now(), dropped })
}

// otherVersion notes a frame of another major version.
func (l *Link) otherVersion(v *frame.VersionError) {
	l.mu.Lock()
	recent := l.state.other == *v && time.Since(l.state.otherAt) < forget/2
	l.mu.Unlock()
	if !recent {
		l.edit(func(s *state) { s.other, s.otherAt = *v, time.Now() })
	}
}

// examine measures the connection and asks JetStream whether it answers, from time to time.
func (l *Link) examine(ctx context.Context) {
	for wait := checkInterval; ; {
		select {
		case <-l.check:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = checkInterval
		if now := l.using.Load(); now != nil && l.isUp() && !l.examineOnce(ctx, now) {
			wait = time.Second
		}
	}
}

// examineOnce reports whether JetStream answers.
func (l *Link) examineOnce(ctx context.Context, now *current) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	l.subscribeAgain(now.conn)
	began := time.Now()
	if now.conn.FlushWithContext(ctx) != nil {
		return false
	}
	took := time.Since(began)
	_, err := now.js.AccountInfo(ctx)
	if ctx.Err() != nil && err == nil {
		return false
	}
	why := ""
	if err != nil {
		why = streamWords(err)
	}
	l.mu.Lock()
	l.state.RoundTrip = took
	same := !l.state.Connected || l.state.streams == why && l.state.JetStream == (err == nil)
	l.mu.Unlock()
	if !same {
		l.edit(func(s *state) { s.streams, s.JetStream = why, err == nil })
	}
	return err == nil
}

// subscribeAgain asks again for subscriptions that were refused: the permissions may have changed.
func (l *Link) subscribeAgain(conn *nats.Conn) {
	l.subscribing.Lock()
	defer l.subscribing.Unlock()
	for subject, sub := range l.subs {
		if l.forgive("subscribe to " + subject) {
			sub.Unsubscribe()
			delete(l.subs, subject)
		}
	}
	l.subscribe(conn)
}

// forgive forgets that something was refused, and reports whether it was: it comes back if it is
// refused again.
func (l *Link) forgive(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.state.denied, what)
	if i >= 0 {
		l.state.denied = slices.Delete(l.state.denied, i, i+1)
	}
	return i >= 0
}
