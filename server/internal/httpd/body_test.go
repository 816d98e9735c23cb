package httpd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A sender is a body of which few bytes come at a time. It notes how much memory is offered
// for bytes that have not come.
type sender struct {
	left, sent int
	offered    int
	most       float64 // memory for each byte that came
}

// Read implements [io.Reader].
func (s *sender) Read(p []byte) (int, error) {
	if s.offered = len(p); s.sent >= smallBody {
		s.most = max(s.most, float64(s.sent+len(p))/float64(s.sent))
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left, 1000)
	s.left -= n
	s.sent += n
	return n, nil
}

// read reads a body of so many bytes, of which others are announced.
func read(t *testing.T, under *work, o Options, bytes int, announced int64) (*sender, *response, *http.Request, error) {
	t.Helper()
	s := &sender{left: bytes}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", s)
	r.ContentLength = announced
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, &request{rules: newRules(&o, nil, nil)}))
	p := newResponse(httptest.NewRecorder(), under)
	body, err := p.body(r)
	if err == nil && len(body) != bytes {
		t.Errorf("%d bytes of %d", len(body), bytes)
	}
	return s, p, r, err
}

// A body gets memory for the bytes that have come, not for those that are announced.
func TestBodyGrows(t *testing.T) {
	under, o := newWork(), Options{}
	if s, _, _, err := read(t, under, o, 0, 1<<20); err != nil || s.offered > smallBody {
		t.Errorf("%d bytes of memory for a body of which nothing comes, %v", s.offered, err)
	}
	for _, announced := range []int64{-1, 1 << 20} {
		if s, _, _, err := read(t, under, o, 1<<20, announced); err != nil || s.most > 2.1 {
			t.Errorf("announced %d: %.1f bytes of memory for each that came, %v", announced, s.most, err)
		}
	}
}

// The memory of all bodies together is bounded and given back; small bodies always have room.
func TestBodyMemory(t *testing.T) {
	under, o := newWork(), Options{MaxBodyMemory: 300_000}
	_, first, _, err := read(t, under, o, 200_000, 200_000)
	if err != nil || under.memory.Load() != 200_001-smallBody {
		t.Fatalf("%d bytes are counted, %v", under.memory.Load(), err)
	}
	if _, _, _, err := read(t, under, o, smallBody-1, -1); err != nil {
		t.Errorf("a small body: %v", err)
	}
	_, second, r, err := read(t, under, o, 200_000, -1)
	if !errors.Is(err, errNoMemory) {
		t.Errorf("both have 400,000 bytes: %v", err)
	}
	refuseBody(second, r, err)
	if got := second.ResponseWriter.(*httptest.ResponseRecorder); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
	second.releaseBody()
	if first.releaseBody(); under.memory.Load() != 0 {
		t.Errorf("%d bytes are counted for nothing", under.memory.Load())
	}
	if _, _, _, err := read(t, under, o, 200_000, -1); err != nil {
		t.Errorf("after that: %v", err)
	}
	if _, _, _, err := read(t, under, o, 10, 300_001); err == nil {
		t.Error("a body that can never have room is waited for")
	}
}
