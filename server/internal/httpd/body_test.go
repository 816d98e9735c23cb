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

// read has an exchange read a body of so many bytes, of which others are announced.
func read(t *testing.T, h *Handler, bytes int, announced int64) (*sender, *exchange, error) {
	t.Helper()
	s := &sender{left: bytes}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", s)
	r.ContentLength = announced
	w := httptest.NewRecorder()
	x := &exchange{w: w, r: r, control: http.NewResponseController(w), rules: h.current(), ending: context.Background(), memory: &h.memory}
	body, err := x.body()
	if err == nil && len(body) != bytes {
		t.Errorf("%d bytes of %d", len(body), bytes)
	}
	return s, x, err
}

func limited(o Options) *Handler {
	return &Handler{live: func() (*Options, <-chan struct{}) { return &o, nil }}
}

// A body gets memory for the bytes that have come, not for those that are announced.
func TestBodyGrows(t *testing.T) {
	h := limited(Options{})
	if s, _, err := read(t, h, 0, 1<<20); err != nil || s.offered > smallBody {
		t.Errorf("%d bytes of memory for a body of which nothing comes, %v", s.offered, err)
	}
	for _, announced := range []int64{-1, 1 << 20} {
		if s, _, err := read(t, h, 1<<20, announced); err != nil || s.most > 2.1 {
			t.Errorf("announced %d: %.1f bytes of memory for each that came, %v", announced, s.most, err)
		}
	}
}

// The memory of all bodies together is bounded and given back; small bodies always have room.
func TestBodyMemory(t *testing.T) {
	h := limited(Options{MaxBodyMemory: 300_000})
	_, first, err := read(t, h, 200_000, 200_000)
	if err != nil || h.memory.used.Load() != 200_001-smallBody {
		t.Fatalf("%d bytes are counted, %v", h.memory.used.Load(), err)
	}
	if _, _, err := read(t, h, smallBody-1, -1); err != nil {
		t.Errorf("a small body: %v", err)
	}
	_, second, err := read(t, h, 200_000, -1)
	if !errors.Is(err, errNoMemory) {
		t.Errorf("both have 400,000 bytes: %v", err)
	}
	second.refuseBody(err)
	if got := second.w.(*httptest.ResponseRecorder); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
	second.lease.release()
	user := first.lease.share() // such as a request of a session that outlives its connection
	first.lease.release()
	if h.memory.used.Load() == 0 {
		t.Error("a body that is in use is not counted")
	}
	if user.release(); h.memory.used.Load() != 0 {
		t.Errorf("%d bytes are counted for nothing", h.memory.used.Load())
	}
	if _, _, err := read(t, h, 200_000, -1); err != nil {
		t.Errorf("after that: %v", err)
	}
	if _, _, err := read(t, h, 10, 300_001); err == nil {
		t.Error("a body that can never have room is waited for")
	}
}
