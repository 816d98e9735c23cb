package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A server refuses a token that has expired.
type expiring struct {
	valid    atomic.Pointer[string]
	status   int
	requests atomic.Int32
	bodies   sync.Map
}

func (e *expiring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.requests.Add(1)
	if r.Header.Get("Authorization") != "Bearer "+*e.valid.Load() {
		w.WriteHeader(e.status)
		return
	}
	body, _ := io.ReadAll(r.Body)
	e.bodies.Store(string(body)+r.Header.Get("Mcp-Session-Id")+r.Header.Get("X-Gone"), true)
}

// post sends a request of a session and returns its status, 0 for an error.
func post(t *testing.T, s *Site, body string) (int, error) {
	t.Helper()
	resp, err := s.do(t.Context(), func() (*http.Request, error) {
		r, err := s.request(t.Context(), http.MethodPost, s.url.String(), "*/*", []byte(body))
		expect.OK(t, err)
		r.Header.Set("Mcp-Session-Id", "s1")
		return r, nil
	})
	if err != nil {
		return 0, err
	}
	discardBody(resp)
	return resp.StatusCode, nil
}

func TestRenewal(t *testing.T) {
	for _, status := range []int{401, 403} {
		server := &expiring{status: status}
		valid := "new"
		server.valid.Store(&valid)
		h := httptest.NewServer(server)
		defer h.Close()
		var renewals atomic.Int32
		s, err := NewSite(h.URL, Access{
			Headers: map[string]string{"Authorization": "Bearer old", "X-Other": "1", "X-Gone": "1", "Accept": "ours/wins"},
			Renew: func(context.Context) (map[string]string, error) {
				renewals.Add(1)
				return map[string]string{"Authorization": "Bearer new", "X-Other": "1"}, nil
			},
		}, "1")
		expect.OK(t, err)
		defer s.Close()
		var calls sync.WaitGroup
		for _, body := range []string{"a", "b", "c"} { // at the same time
			calls.Go(func() {
				if got, err := post(t, s, body); got != 200 || err != nil {
					t.Errorf("%d: %d, %v", status, got, err)
				}
				if _, ok := server.bodies.Load(body + "s1"); !ok {
					t.Errorf("the body or the session of %s is lost, or an old header is still sent", body)
				}
			})
		}
		calls.Wait()
		expect.Equal(t, renewals.Load(), 1, "%d: renewed … times", status)
		// What is refused now is not renewed for a minute, whatever comes.
		valid = "newest"
		server.valid.Store(&valid)
		before := server.requests.Load()
		for range 5 {
			if got, err := post(t, s, "d"); got == 200 || status == 401 && !errors.As(err, new(*NeedsAuthError)) {
				t.Errorf("%d: %d, %v", status, got, err)
			}
		}
		if n := renewals.Load(); n != 1 || server.requests.Load() != before+5 {
			t.Errorf("%d: renewed %d times, %d requests", status, n, server.requests.Load()-before)
		}
	}
}

// Why there is no other secret is said.
func TestRenewalFails(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }))
	defer h.Close()
	for name, renew := range map[string]func(context.Context) (map[string]string, error){
		"not signed in":                        func(context.Context) (map[string]string, error) { return nil, errors.New("not signed in") },
		`the one in "Authorization"`:           func(context.Context) (map[string]string, error) { return map[string]string{"Authorization": "x"}, nil },
		`the one in "Authorization" of the en`: nil,
	} {
		s, err := NewSite(h.URL, Access{Headers: map[string]string{"Authorization": "x"}, Renew: renew}, "1")
		expect.OK(t, err)
		if _, err := post(t, s, "a"); !errors.As(err, new(*NeedsAuthError)) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
}

// A server that quotes what it got tells no secret.
func TestStatusErrorHides(t *testing.T) {
	s := &Site{Access: Access{Hide: func(text string) string { return strings.ReplaceAll(text, "hunter2", "${keyring:A}") }}}
	if got := s.statusError(&http.Response{StatusCode: 500}, []byte("bad token hunter2")).Error(); !strings.HasSuffix(got, "bad token ${keyring:A}") {
		t.Error(got)
	}
}

// A byte order mark before an answer is no part of it, as for fetch.
func TestReadBody(t *testing.T) {
	body, err := readBody(&http.Response{Body: io.NopCloser(strings.NewReader("\xef\xbb\xbf{}"))})
	expect.OK(t, err)
	expect.Equal(t, string(body), "{}", "body")
}
