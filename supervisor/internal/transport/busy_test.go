package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request that was refused since it came too soon waits as the server asks, and is sent again: a few
// times, if the wait is short, and if it can do no harm.
func TestPatient(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		after      string // Retry-After; "date" is 3 s from now
		repeatable bool
		refusals   int
		limit      time.Duration // of the context
		sent       int
		waited     time.Duration
		want       int // the status; 0 is the end of the context
	}{
		"seconds":                  {429, "2", false, 1, 0, 2, 2 * time.Second, 200},
		"at once":                  {429, "0", false, 2, 0, 3, 0, 200},
		"five seconds, thrice":     {429, "5", false, 3, 0, 4, 15 * time.Second, 200},
		"a date":                   {429, "date", false, 1, 0, 2, 3 * time.Second, 200},
		"a date that is over":      {429, "Sun, 06 Nov 1994 08:49:37 GMT", false, 1, 0, 2, 0, 200},
		"again and again":          {429, "1", false, 9, 0, 4, 3 * time.Second, 429},
		"too long":                 {429, "6", false, 1, 0, 1, 0, 429},
		"without a time":           {429, "", false, 1, 0, 1, 0, 429},
		"nonsense":                 {429, "soon", false, 1, 0, 1, 0, 429},
		"busy":                     {503, "1", false, 1, 0, 1, 0, 503},
		"busy and repeatable":      {503, "1", true, 1, 0, 2, time.Second, 200},
		"another status":           {500, "1", true, 1, 0, 1, 0, 500},
		"the call ends meanwhile":  {429, "5", false, 1, 2 * time.Second, 1, 2 * time.Second, 0},
		"longer than time can say": {429, "99999999999999999999", false, 1, 0, 1, 0, 429},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, sent := time.Now(), 0
			if tc.after == "date" {
				tc.after = began.Add(3 * time.Second).UTC().Format(http.TimeFormat)
			}
			s, err := NewSite("http://far.example/mcp", Access{}, "1")
			expect.OK(t, err)
			s.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				if sent++; string(body) != "{}" || r.Header.Get("Authorization") != "" {
					t.Errorf("%s: sent %q", name, body)
				}
				resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}
				if sent <= tc.refusals {
					resp.StatusCode = tc.status
					resp.Header.Set("Retry-After", tc.after)
				}
				return resp, nil
			})}
			ctx := t.Context()
			if tc.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.limit)
				defer cancel()
			}
			resp, err := s.patient(ctx, tc.repeatable, func() (*http.Request, error) { return s.request(ctx, "POST", s.url.String(), "*/*", []byte("{}")) })
			got := 0
			if err == nil {
				got = resp.StatusCode
			}
			if got != tc.want || sent != tc.sent || time.Since(began) != tc.waited || (got == 0) != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: status %d, %v after %s, sent %d times; want %+v", name, got, err, time.Since(began), sent, tc)
			}
		})
	}
}

func TestStatusErrorText(t *testing.T) {
	s, err := NewSite("http://far.example/mcp", Access{Hide: func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }}, "1")
	expect.OK(t, err)
	for _, tc := range []struct {
		status            int
		after, body, want string
	}{
		{429, "60", "slow down", "HTTP 429 Too Many Requests: slow down; try again in 60 seconds"},
		{503, "7", "", "HTTP 503 Service Unavailable; try again in 7 seconds"},
		{500, "7", "no", "HTTP 500 Internal Server Error: no"},
		{502, "", "\n<!DOCTYPE html>\n<html><head><TITLE lang=en>Bad &amp;\n gateway hunter2</TITLE></head><body><h1>x</h1>", "HTTP 502 Bad Gateway: Bad & gateway ***"},
		{502, "", "<html><body>x</body>", "HTTP 502 Bad Gateway: an HTML page without a title"},
		{502, "", "<html><title>x", "HTTP 502 Bad Gateway: an HTML page without a title"},
		{400, "", "the tag <title>x</title>", "HTTP 400 Bad Request: the tag <title>x</title>"},
	} {
		resp := &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.after}}}
		expect.Equal(t, s.statusError(resp, []byte(tc.body)).Error(), "the server answered "+tc.want, "%q", tc.body)
	}
}

func FuzzTitle(f *testing.F) {
	f.Add("<html><title>a</title>")
	f.Add("<!doctype html><TITLE x>\u0130</title><title")
	f.Fuzz(func(t *testing.T, page string) { titleOf(page) })
}

// The answer in an event that the end of the stream cuts off is taken, unless a part of it is missing.
func TestLastEvent(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, tc := range map[string]struct {
		stream   string
		answered bool
		id       string
	}{
		"whole":               {"id: 5\ndata: " + answer + "\n\n", true, "5"},
		"without blank line":  {"id: 5\ndata: " + answer + "\n", true, "5"},
		"without a line end":  {"id: 5\ndata: " + answer, true, "5"},
		"of another name":     {"event: response\ndata: " + answer + "\n\n", true, ""},
		"a part":              {"id: 5\ndata: {}\n\nid: 6\ndata: " + answer[:20], false, "5"},
		"a ping":              {"event: ping\ndata: {}\n\n", false, ""},
		"a part with its end": {"data: {\n", false, ""},
	} {
		p := peer.New(peer.Host{Server: "s", Stray: func([]byte, error) {}}, func(c *peer.Conn) peer.Link { return nil })
		s, err := NewSite("http://far.example/mcp", Access{}, "1")
		expect.OK(t, err)
		l := NewStreamable(p.Conn, s, zap.NewNop())
		var at position
		answered, err := l.read(strings.NewReader(tc.stream), &peer.Outgoing{ID: 1, Method: "tools/call"}, &at, "2025-06-18")
		if answered != tc.answered || at.id != tc.id || !answered && err != io.EOF {
			t.Errorf("%s: answered %v, at %q, %v", name, answered, at.id, err)
		}
		p.Close(errors.New("done"))
		l.abort()
	}
}

// A server of the modern era gets answers, and no notifications.
func TestModernPosts(t *testing.T) {
	posted := ""
	p := peer.New(peer.Host{Server: "s"}, func(*peer.Conn) peer.Link { return nil })
	s, err := NewSite("http://far.example/mcp", Access{}, "1")
	expect.OK(t, err)
	s.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		posted += string(body)
		return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
	})
	l := NewStreamable(p.Conn, s, zap.NewNop())
	l.revision = session.Modern
	expect.OK(t, l.Send(t.Context(), &peer.Outgoing{Method: "notifications/roots/list_changed", Line: []byte("news")}))
	expect.OK(t, l.Send(t.Context(), &peer.Outgoing{Line: []byte("pong")}))
	p.Close(nil)
	p.Wait()
	expect.Equal(t, posted, "pong", "posted")
	l.abort()
}

// While an event has no blank line, its request says so.
func TestOpenEvent(t *testing.T) {
	in, out := io.Pipe()
	o := new(peer.Outgoing)
	stream := wire.NewEventReader(in, 1000)
	stream.Open = &o.OpenEvent
	ended := make(chan error)
	go func() {
		_, err := stream.Next()
		ended <- err
	}()
	io.WriteString(out, "data: x\n")
	io.WriteString(out, ": y\n") // read once the line before is
	if !o.OpenEvent.Load() {
		t.Error("an event without blank line is not seen")
	}
	io.WriteString(out, "\n")
	if err := <-ended; err != nil || o.OpenEvent.Load() {
		t.Errorf("the event: %v, open %v", err, o.OpenEvent.Load())
	}
	out.Close()
}
