package supervisor

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// queue returns a server that can't start for as long as others do.
func queue(t *testing.T) (*server, config.Server) {
	entry := config.Server{Name: "s", Transport: config.Stdio, Command: "/no/such/program", StartTimeout: time.Minute}
	v := New(knows{}, Options{}, zap.NewNop())
	for range runtime.GOMAXPROCS(0) + 1 {
		go v.turns.processes.Take(t.Context(), signal.Turn{Limit: 24 * time.Hour})
	}
	synctest.Wait()
	return newServer(t.Context(), nil, v.common, entry), entry
}

// A server starts when it is its turn, or as soon as a call or a person waits for it.
func TestWantedServerStartsFirst(t *testing.T) {
	for name, want := range map[string]func(ctx context.Context, s *server){
		"a call":    func(ctx context.Context, s *server) { s.public.await(ctx, false, nil) },
		"a restart": func(ctx context.Context, s *server) { s.public.await(ctx, true, new(int64)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, entry := queue(t)
				ended := make(chan error, 1)
				go func() {
					_, err := s.start(t.Context(), entry)
					ended <- err
				}()
				synctest.Wait()
				time.Sleep(5 * time.Second)
				if st := s.status(); len(ended) != 0 || st.State != status.Starting || !strings.Contains(st.LastError, "waiting until other servers have started, for 5s") {
					t.Errorf("before anyone waits for it: %+v", st)
				}
				s.public.wake() // as a listing of all servers does
				synctest.Wait()
				expect.Equal(t, len(ended), 0, "it started before its turn, and no call waits for it")
				go want(t.Context(), s)
				synctest.Wait()
				select {
				case err := <-ended:
					if !launch.IsMissing(err) || s.status().Doing != "" {
						t.Errorf("start = %v, %+v", err, s.status())
					}
				default:
					t.Error("it does not start")
				}
			})
		})
	}
}

// A call that waits through a failed start has the next one begin at once too.
func TestWantedServerStartsFirstAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, entry := queue(t)
		go s.public.await(t.Context(), false, nil)
		for range 3 {
			began := time.Now()
			if s.start(t.Context(), entry); time.Since(began) != 0 {
				t.Errorf("the start waited for %v", time.Since(began))
			}
		}
	})
}

// A server that waits for its turn ends at once when it is removed or edited.
func TestNoWaitForATurnAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, entry := queue(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errRemoved) })
		began := time.Now()
		if _, err := s.start(ctx, entry); !errors.Is(err, errRemoved) || time.Since(began) != time.Second {
			t.Errorf("after the removal: %v, after %v", err, time.Since(began))
		}
		edited := entry
		edited.Args = []string{"x"}
		time.AfterFunc(time.Second, func() { s.control.edit(edited, func() {}) })
		if _, err := s.start(t.Context(), entry); !errors.Is(err, errEdited) || time.Since(began) != 2*time.Second {
			t.Errorf("after the edit: %v, after %v", err, time.Since(began))
		}
	})
}

// Remote servers do not wait for processes.
func TestTurnsOfRemoteServers(t *testing.T) {
	turns := newTurns()
	for _, kind := range []config.Transport{config.StreamableHTTP, config.SSE, config.AutoHTTP} {
		expect.Equal(t, turns.of(config.Server{Transport: kind}), turns.remote, "%s waits for processes", kind)
	}
	expect.Equal(t, turns.of(config.Server{Transport: config.Stdio}), turns.processes, "stdio is remote")
}
