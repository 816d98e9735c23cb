package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// A fakeVerifier answers as the test says.
type fakeVerifier struct {
	issuers []bearer.Issuer
	before  verifier // nil for none
	answer  func(ctx context.Context, token, resource string) (*bearer.Token, error)
	closed  atomic.Bool
	asked   atomic.Int64
}

// Verify implements [verifier].
func (v *fakeVerifier) Verify(ctx context.Context, token, resource string) (*bearer.Token, error) {
	v.asked.Add(1)
	defer func() {
		if v.closed.Load() {
			panic("closed while it verifies")
		}
	}()
	return v.answer(ctx, token, resource)
}

// Close implements [verifier].
func (v *fakeVerifier) Close() { v.closed.Store(true) }

// A fakeWorld is a configuration that the test edits, and the verifiers that were opened.
type fakeWorld struct {
	*authenticator
	now    atomic.Pointer[admission]
	mu     sync.Mutex
	opened []*fakeVerifier
}

// newFakeWorld returns one in which answer verifies tokens.
func newFakeWorld(r config.Router, answer func(ctx context.Context, token, resource string) (*bearer.Token, error)) *fakeWorld {
	w := &fakeWorld{}
	w.edit(r)
	w.authenticator = newAuthenticator(
		func() (*admission, <-chan struct{}) { return w.now.Load(), nil },
		func(before verifier, issuers []bearer.Issuer) verifier {
			if v, ok := before.(*fakeVerifier); ok && v.closed.Load() {
				panic("a closed verifier is taken over")
			}
			v := &fakeVerifier{issuers: issuers, before: before, answer: answer}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.opened = append(w.opened, v)
			return v
		}, zap.NewNop())
	return w
}

func (w *fakeWorld) edit(r config.Router) {
	w.now.Store(&admission{issuers: issuersOf(config.Config{Router: r}, []byte("key"))})
}

// routerWith returns a configuration with issuers, and the profiles "work" and "ops".
func routerWith(issuers ...config.Issuer) config.Router {
	return config.Router{
		Profiles: map[string]config.Profile{"work": {}, "ops": {}},
		HTTP:     config.HTTP{PublicURL: "https://tools.example.com", Issuers: issuers},
	}
}

// The verifier, which has the keys, is opened again only for what concerns it. The old one is
// closed once its calls have ended.
func TestVerifierFollowsConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newFakeWorld(routerWith(), func(_ context.Context, token, _ string) (*bearer.Token, error) {
			if token == "slow" {
				<-release
			}
			return nil, &bearer.InvalidError{Reason: "because"}
		})
		ask := func(token, want string) {
			t.Helper()
			_, err := w.Token(t.Context(), token, "")
			if refusal, ok := errors.AsType[*clientauth.Refusal](err); !ok || refusal.Status != 401 || refusal.Reason != want {
				t.Errorf("%s: %v", token, err)
			}
		}
		ask("none", errNoIssuer.Reason)
		one := config.Issuer{URL: "https://a.example", User: "sub"}
		w.edit(routerWith(one))
		if len(w.opened) != 0 {
			t.Error("a verifier was opened without issuers")
		}
		ask("first", "because")
		slow := make(chan struct{})
		go func() {
			defer close(slow)
			w.Token(t.Context(), "slow", "")
		}()
		synctest.Wait()
		one.Profiles = []config.ProfileRule{{Claim: config.Claim{Name: "*"}, Profile: "work"}}
		w.edit(routerWith(one))
		ask("rules", "because")
		if len(w.opened) != 1 {
			t.Fatalf("another rule opened a verifier: %d", len(w.opened))
		}
		one.Audience = "tools"
		w.edit(routerWith(one, config.Issuer{}))
		ask("audience", "because")
		synctest.Wait()
		if len(w.opened) != 2 || len(w.opened[1].issuers) != 1 || w.opened[1].issuers[0].Audience != "tools" || w.opened[0].closed.Load() {
			t.Fatalf("%d verifiers, the first is closed: %v", len(w.opened), w.opened[0].closed.Load())
		}
		if w.opened[0].before != nil || w.opened[1].before != w.opened[0] {
			t.Error("the second verifier does not take over from the first")
		}
		close(release)
		<-slow
		synctest.Wait()
		if !w.opened[0].closed.Load() || w.opened[1].closed.Load() {
			t.Error("the wrong verifier is closed")
		}
		w.edit(routerWith())
		ask("removed", errNoIssuer.Reason)
		synctest.Wait()
		if !w.opened[1].closed.Load() {
			t.Error("the verifier of no issuer stays")
		}
		w.edit(routerWith(one))
		ask("back", "because")
		w.Close()
		if !w.opened[2].closed.Load() {
			t.Error("Close leaves a verifier")
		}
		if _, err := w.Token(t.Context(), "late", ""); err != errEnding {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Close waits for the tokens that are being judged.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newFakeWorld(routerWith(config.Issuer{URL: "https://a.example"}), func(context.Context, string, string) (*bearer.Token, error) {
			<-release
			return nil, fmt.Errorf("down: %w", bearer.ErrUnavailable)
		})
		judged := make(chan error, 1)
		go func() {
			_, err := w.Token(t.Context(), "slow", "")
			judged <- err
		}()
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			w.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		close(release)
		<-closed
		if err := <-judged; !errors.Is(err, bearer.ErrUnavailable) {
			t.Errorf("an issuer that is down is refused as a bad token: %v", err)
		}
	})
}

// Edits at the same time as tokens never leave a verifier open, or use a closed one.
func TestEditsWhileTokensCome(t *testing.T) {
	w := newFakeWorld(routerWith(), func(context.Context, string, string) (*bearer.Token, error) {
		return nil, &bearer.InvalidError{Reason: "because"}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for ctx.Err() == nil {
				w.Token(ctx, "x", "")
			}
		})
	}
	for i := range 300 {
		w.edit(routerWith(config.Issuer{URL: "https://a.example", Audience: fmt.Sprint(i % 3)}))
		w.Token(ctx, "x", "")
	}
	cancel()
	working.Wait()
	w.Close()
	if open := slices.ContainsFunc(w.opened, func(v *fakeVerifier) bool { return !v.closed.Load() }); open {
		t.Error("a verifier stays open")
	}
}
