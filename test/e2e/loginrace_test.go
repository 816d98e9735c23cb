//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	raceRouters = 5
	raceCalls   = 40 // at once, for each router

	// racePause is the time between two calls of each of them: other tests run at the same time.
	racePause = 2 * time.Second

	// raceLife is how long the tokens of a race live.
	raceLife = 8 * time.Second

	// raceVariable is how long each race of logins takes; 30s without.
	raceVariable = "METAROUTER_LOGINRACE"
)

// A race is routers of one user that share a login: each has a configuration of its own, with the
// same server.
type race struct {
	t        *testing.T
	resource *fakeissuer.Resource
	routers  []*setup
	made     atomic.Int64 // calls that were answered
}

// newRace logs in once, for all routers.
func newRace(t *testing.T, o fakeissuer.Options) (*race, *fakeissuer.Issuer) {
	t.Helper()
	home := t.TempDir()
	issuer := fakeissuer.New(t, o)
	r := &race{t: t, resource: issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "echo"}})}
	for range raceRouters {
		s := prepare(t, entries{"remote": {"type": "http", "url": r.resource.URL}}, nil)
		s.home = home
		r.routers = append(r.routers, s)
	}
	r.routers[0].logIn()
	return r, issuer
}

// raceTime returns how long a race takes.
func raceTime(t *testing.T) time.Duration {
	t.Helper()
	asked := os.Getenv(raceVariable)
	if asked == "" {
		return 30 * time.Second
	}
	d, err := time.ParseDuration(asked)
	expect.OK(t, err, "%s", raceVariable)
	return d
}

// run has all routers call the server for a time. A router is killed after a random time of up to
// kill, and started again; 0 kills no process.
func (r *race) run(d, kill time.Duration) {
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range r.routers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := r.live(ctx, s, kill); err != nil {
					r.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// live is the life of a router, from its start to its end. The error is of a call that was not
// answered well.
func (r *race) live(ctx context.Context, s *setup, kill time.Duration) error {
	c := s.start("--standalone", "--mode", "direct")
	defer c.Kill() // after an error
	limit, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Initialize(limit); err != nil {
		return fmt.Errorf("initialize: %w\n%s", err, c.Stderr())
	}
	killed := new(atomic.Bool)
	end, stop := context.WithCancel(ctx)
	defer stop()
	if kill > 0 {
		timer := time.AfterFunc(rand.N(kill), func() {
			killed.Store(true)
			c.Kill()
			stop()
		})
		defer timer.Stop()
	}
	failed := make(chan error, raceCalls)
	var calls sync.WaitGroup
	for range raceCalls {
		calls.Go(func() {
			for end.Err() == nil {
				if err := r.call(c); err != nil && !killed.Load() {
					failed <- err
					stop()
					return
				}
				select {
				case <-time.After(racePause):
				case <-end.Done():
				}
			}
		})
	}
	calls.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("%w\n%s", err, c.Stderr())
	default:
	}
	if killed.Load() {
		return nil
	}
	if err := c.Close(); err != nil && !killed.Load() { // a router that ends by itself completes its refresh
		return fmt.Errorf("end: %w\n%s", err, c.Stderr())
	}
	return nil
}

func (r *race) call(c *mcptest.Client) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	raw, err := c.Call(ctx, "remote__echo", map[string]string{"message": "hello"})
	if err != nil {
		return err
	}
	if text := decode(r.t, raw).text(); !strings.Contains(text, "hello") {
		return errors.New(text)
	}
	r.made.Add(1)
	return nil
}

// check fails the test if a login was lost.
func (r *race) check(issuer *fakeissuer.Issuer) {
	r.t.Helper()
	n := issuer.Counts()
	accepted, refused := r.resource.Requests()
	r.t.Logf("%d calls; the issuer counts %+v; the server accepted %d requests and refused %d", r.made.Load(), n, accepted, refused)
	if n.Authorizations != 1 || n.Reuses != 0 {
		r.t.Errorf("%d logins and %d reuses of a refresh token, want one login and no reuse", n.Authorizations, n.Reuses)
	}
	if r.made.Load() == 0 || n.Refreshes == 0 {
		r.t.Error("there was no race")
	}
	stdout, _, _ := r.routers[0].run("call", "remote:echo", "message=still here")
	expect.Contains(r.t, stdout, "still here", "after the race, a call says")
}

// TestLoginRace runs the races one after the other: two at once are too much for a small machine.
func TestLoginRace(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	t.Run("on time", raceOnTime)
	t.Run("with kills", raceWithKills)
}

// raceOnTime has routers share a login whose tokens live for seconds, with an issuer that ends
// a login if a refresh token is used twice.
func raceOnTime(t *testing.T) {
	r, issuer := newRace(t, fakeissuer.Options{Life: raceLife, Rotate: true})
	r.run(raceTime(t), 0)
	r.check(issuer)
}

// raceWithKills kills the routers at any time. The issuer is slow to answer, so that some
// are killed while they wait, and repeats its answer for 10 s.
func raceWithKills(t *testing.T) {
	r, issuer := newRace(t, fakeissuer.Options{Life: raceLife, Rotate: true, Grace: 10 * time.Second})
	issuer.Change(func(o *fakeissuer.Options) {
		o.BeforeAnswer = func(string) bool {
			time.Sleep(rand.N(time.Second))
			return true
		}
	})
	r.run(raceTime(t), 3*time.Second)
	r.check(issuer)
}
