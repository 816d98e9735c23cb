package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/mod/semver"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	reconnectAfter = 30 * time.Second // for permissions that may have changed
	logEvery       = time.Minute      // failures

	maxDenied = 20  // subjects
	maxText   = 300 // bytes of an error

	fullPayload = 1 << 20 // NATS's default limit of a message, in bytes
)

// A State is how the connection to NATS is. The values of the report are of the current connection,
// or the last one; they show no credentials.
type State struct {
	clusternode.Report
	Epoch  uint64   // counts connections, from 1; 0 before the first
	Denied []string // operations that NATS's permissions refuse, such as "publish to $JS.API.INFO"

	maxPayload int64 // bytes of a message that NATS takes

	// Err is why there is no connection; nil if there is one, or before the first attempt. It shows
	// no credentials, and wraps the error of nats.go.
	Err error
}

// State returns how the connection is.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.Denied, s.Problems = slices.Clone(s.Denied), l.problems(&s)
	return s
}

// Changed returns a channel that is closed at the next change of the state.
func (l *Link) Changed() <-chan struct{} { return l.changed.Next() }

// edit makes a change, which reports whether it changes anything.
func (l *Link) edit(change func(s *State) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if change(&l.state) {
		l.changed.Notify()
	}
}

func (l *Link) problems(s *State) (all []string) {
	add := func(format string, arguments ...any) { all = append(all, fmt.Sprintf(format, arguments...)) }
	switch {
	case !s.Connected && s.Err != nil:
		add("There is no connection to NATS: %v.", s.Err)
	case !s.Connected:
		add("There is no connection to NATS yet.")
	}
	if s.Connected && older(s.Server, "v2.11") {
		add("The NATS server has version %s; a cluster needs 2.11 or later.", s.Server)
	}
	if s.Connected && s.maxPayload > 0 && s.maxPayload < fullPayload {
		add("The NATS server takes messages of %d bytes only; set max_payload to %d or more, or a node that shares many servers can't announce them.", s.maxPayload, fullPayload)
	}
	for _, subject := range s.Denied {
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

// older reports whether a version is older than one such as "v2.11"; a version that can't be read is not.
func older(version, than string) bool {
	version = semver.MajorMinor("v" + version)
	return version != "" && semver.Compare(version, than) < 0
}

func (l *Link) connected(conn *nats.Conn) {
	l.using.Store(conn)
	if last := l.dialer.count.Load(); conn.IsConnected() {
		l.up.Store(last)
	}
	url, version, size := l.masked.clean(conn.ConnectedUrlRedacted()), conn.ConnectedServerVersion(), conn.MaxPayload()
	l.edit(func(s *State) bool {
		*s = State{Report: clusternode.Report{Connected: true, URL: url, Server: version}, maxPayload: size, Epoch: s.Epoch + 1}
		return true
	})
	l.options.Log.Info("connected to NATS", zap.String("url", url), zap.String("version", version))
}

func (l *Link) disconnected(err error) {
	if err == nil {
		err = errors.New("the connection was lost")
	}
	err = l.explained(err)
	l.edit(func(s *State) bool {
		if s.Connected && l.dialer.ctx.Err() == nil { // else it was closed
			l.options.Log.Warn("lost the connection to NATS", zap.Error(err))
			s.Err = err
		}
		s.Connected = false
		return true
	})
}

// failed notes why an attempt to connect failed.
func (l *Link) failed(err error) {
	err = l.explained(err)
	l.edit(func(s *State) bool {
		if s.Connected || s.Err != nil && s.Err.Error() == err.Error() {
			return false
		}
		s.Err = err
		if now := time.Now(); now.Sub(l.loggedAt) > logEvery { // reasons may alternate
			l.loggedAt = now
			l.options.Log.Warn("no connection to NATS", zap.Error(err))
		}
		return true
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
	l.edit(func(s *State) bool {
		if slices.Contains(s.Denied, what) || len(s.Denied) >= maxDenied {
			return false
		}
		s.Denied = append(s.Denied, what)
		l.options.Log.Warn("the permissions of NATS refuse an operation of this router", zap.String("refused", what))
		return true
	})
}

// reconnect connects again while NATS has refused a subscription that streams need: NATS forgets such a
// subscription, and the permissions may have changed.
func (l *Link) reconnect(ctx context.Context) {
	for !signal.Within(ctx.Done(), reconnectAfter) {
		refused := slices.ContainsFunc(l.State().Denied, func(what string) bool { return strings.HasPrefix(what, "subscribe to "+l.prefix+"stream.") })
		if conn := l.using.Load(); conn != nil && refused && l.Up() {
			_ = conn.ForceReconnect() // fails for a closed connection only
		}
	}
}
