package httpd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// loginIdle is how long a login lasts without a request, loginLife how long at most. No
	// login lasts longer than the router.
	loginIdle = 12 * time.Hour
	loginLife = 7 * 24 * time.Hour

	// renewAfter is how old a cookie is when the browser gets a new one.
	renewAfter = time.Hour

	// pageTime bounds one request of a page, such as its stream of events: the page asks
	// again, by which its cookie is renewed or found to be too old.
	pageTime = loginIdle / 2

	// maxLoggedOut bounds the logins that are kept because they were ended early.
	maxLoggedOut = 1000
)

// A stay is what a browser's cookie says: which login it is of, and since when.
type stay struct {
	id      string
	begun   time.Time // in whole seconds, as renewed
	renewed time.Time
	grant   *grant      // of the principal that logged in; nil until the cookie has proved to be genuine
	sso     *ssoSession // at an issuer; nil for a login by a token
}

// newStay returns that of a login.
func newStay(now time.Time) stay {
	return stay{id: rand.Text(), begun: now.Truncate(time.Second), renewed: now}
}

// lasts reports whether the cookie is still good.
func (s stay) lasts(now time.Time) bool {
	return !now.Before(s.begun) && now.Before(s.end()) && now.Sub(s.renewed) < loginIdle
}

// end returns when the login ends at the latest.
func (s stay) end() time.Time { return s.begun.Add(loginLife) }

// signed returns the value of the cookie, for the token of that hash.
func (s stay) signed(secret []byte, token string) string {
	said := s.id + "." + strconv.FormatInt(s.begun.Unix(), 10) + "." + strconv.FormatInt(s.renewed.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(loginPath + " " + token + " " + said))
	return said + "." + hex.EncodeToString(mac.Sum(nil))
}

// maxCookie bounds the value of a cookie that is looked at, in bytes.
const maxCookie = 256

// parseStay returns what a cookie says, which may be forged.
func parseStay(value string) (s stay, ok bool) {
	parts := strings.Split(value[:min(len(value), maxCookie)], ".")
	if len(parts) != 4 {
		return stay{}, false
	}
	begun, err := strconv.ParseInt(parts[1], 10, 64)
	renewed, err2 := strconv.ParseInt(parts[2], 10, 64)
	return stay{id: parts[0], begun: time.Unix(begun, 0), renewed: time.Unix(renewed, 0)}, err == nil && err2 == nil
}

// logouts are the logins that were ended early, and what must end with a login.
type logouts struct {
	mu     sync.Mutex            // guards what follows
	ended  map[string]time.Time  // when the login began, by its id
	before time.Time             // all logins that began up to then have ended
	open   map[string][]*ongoing // requests that are being served, by the id of their login
}

// An ongoing is a request of a page.
type ongoing struct{ cancel context.CancelFunc }

// add ends a login. If too many are kept, all logins end that are as old as the oldest.
func (l *logouts) add(s stay, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = make(map[string]time.Time)
	}
	l.ended[s.id] = s.begun
	for id, begun := range l.ended {
		if now.Sub(begun) >= loginLife {
			delete(l.ended, id)
		}
	}
	for len(l.ended) > maxLoggedOut {
		oldest := s.begun
		for _, begun := range l.ended {
			if begun.Before(oldest) {
				oldest = begun
			}
		}
		l.before = oldest
		for id, begun := range l.ended {
			if !begun.After(oldest) {
				delete(l.ended, id)
			}
		}
	}
	for _, o := range l.open[s.id] {
		o.cancel()
	}
}

// has reports whether the login was ended.
func (l *logouts) has(s stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasEnded(s)
}

// hasEnded is has. l.mu must be held.
func (l *logouts) hasEnded(s stay) bool {
	_, ended := l.ended[s.id]
	return ended || !s.begun.After(l.before)
}

// follow calls cancel when the login is ended, until the returned function is called.
func (l *logouts) follow(s stay, cancel context.CancelFunc) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded(s) {
		cancel()
		return func() {}
	}
	if l.open == nil {
		l.open = make(map[string][]*ongoing)
	}
	mine := &ongoing{cancel}
	l.open[s.id] = append(l.open[s.id], mine)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		left := l.open[s.id][:0]
		for _, o := range l.open[s.id] {
			if o != mine {
				left = append(left, o)
			}
		}
		if l.open[s.id] = left; len(left) == 0 {
			delete(l.open, s.id)
		}
	}
}
