package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// behind serves an API that answers as a test says, and returns a client of it.
func behind(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/v1?key=hidden1", "small", map[string]string{"Authorization": "Bearer hidden2"})
	expect.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestTaskHasHeaders(t *testing.T) {
	c := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/embeddings" || r.URL.RawQuery != "key=hidden1" || r.Header.Get("Authorization") != "Bearer hidden2" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1,0]}]}`)
	})
	if v, err := c.Task(t.Context(), []string{"do it"}); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
}

// Faults of a broken or hostile API are errors without secrets, and after three of them the API
// is left alone.
func TestTaskFails(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"garbage":      func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"no vectors":   func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) },
		"another type": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"data":7}`)) },
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":[{"index":0,"embedding":[1]}],"x":%q}`, strings.Repeat("x", maxAnswer))
		},
		"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "1", http.StatusInternalServerError) },
		"401": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "1", http.StatusUnauthorized) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			c := behind(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); answer(w, r) })
			for i := range 5 {
				_, err := c.Task(t.Context(), []string{"do it"})
				if err == nil || errors.Is(err, ErrPaused) != (i >= 3) || strings.Contains(err.Error(), "hidden") {
					t.Errorf("attempt %d: %v", i, err)
				}
			}
			if asked.Load() != 3 || elsewhere.Load() > 0 {
				t.Errorf("asked %d times, elsewhere %d", asked.Load(), elsewhere.Load())
			}
		})
	}
}

// An API that does not answer is given up when the context ends.
func TestTaskEnds(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	c := behind(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := c.Task(ctx, []string{"do it"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
