package bearer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"go.uber.org/zap/zaptest/observer"
)

const (
	clientID     = "router:1"
	clientSecret = "s+cret %/&"
)

// answers makes the issuer answer questions about the token "opaque" with the claims, changed.
func (p *idp) answers(t testing.TB, changes object) {
	p.introspect = func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
		if r.Method != http.MethodPost || id != clientID || secret != clientSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer := object{"active": false}
		if r.FormValue("token") == "opaque" {
			answer = claims(changes)
			if _, ok := changes["active"]; !ok {
				answer["active"] = true
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}
}

func (p *idp) asks(t testing.TB) (*testVerifier, *observer.ObservedLogs) {
	return p.verifier(t, Issuer{ClientID: clientID, ClientSecret: clientSecret, Introspect: true})
}

func TestIntrospection(t *testing.T) {
	now := time.Now().Unix()
	usual := Issuer{ClientID: clientID, ClientSecret: clientSecret, Introspect: true}
	api, off := usual, usual
	api.Audience, off.Introspect = "api", false
	tests := []struct {
		name     string
		settings Issuer
		changes  object
		reason   string // "" if it is valid
	}{
		{"good", usual, nil, ""},
		{"without what may be missing", usual, object{"iss": nil, "exp": nil, "iat": nil}, ""},
		{"of type bearer", usual, object{"token_type": "bearer"}, ""},
		{"for the configured audience", api, object{"aud": "api"}, ""},
		{"for no audience, with a configured one", api, object{"aud": nil}, "for whom it is (aud)"},
		{"not active", usual, object{"active": false}, "not active"},
		{"no audience", usual, object{"aud": nil}, "for whom it is (aud)"},
		{"other audience", usual, object{"aud": []string{"a", "b"}}, "its audience is a and 1 more, not " + resource},
		{"expired", usual, object{"exp": now - 61}, "expired"},
		{"not valid yet", usual, object{"nbf": now + 120}, "(nbf)"},
		{"other issuer", usual, object{"iss": idpURL + "/"}, "another issuer"},
		{"issuer is not text", usual, object{"iss": 1}, "another issuer"},
		{"of type DPoP", usual, object{"token_type": "DPoP"}, "token_type"},
		{"bound", usual, object{"cnf": object{"jkt": "x"}}, "cnf"},
		{"refresh token of Hydra", usual, object{"token_use": "refresh_token"}, "token_use"},
		{"refresh token of Keycloak", usual, object{"typ": "Refresh"}, "(typ)"},
		{"not asked about", off, nil, "no signed JWT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newIDP()
			p.answers(t, tt.changes)
			v, _ := p.verifier(t, tt.settings)
			for range 3 {
				got, err := v.Verify(t.Context(), "opaque", resource)
				switch {
				case tt.reason != "":
					expect.Contains(t, refusal(t, err).Reason, tt.reason, "the reason")
				case err != nil:
					t.Error(err)
				case got.Values("sub")[0] != "u1" || got.Expires.Before(time.Now()) || len(got.Scopes) != 2:
					t.Errorf("the token is %+v", got)
				}
			}
			if n := p.count("/introspect"); (n == 1) != tt.settings.Introspect || !tt.settings.Introspect && len(p.asked) > 0 {
				t.Errorf("it asked for %v", p.asked)
			}
		})
	}
}

// A JWT is never asked about, whatever is wrong with it, once it names an issuer.
func TestJWTsAreNotAskedAbout(t *testing.T) {
	p := newIDP()
	p.introspect = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, payload(claims(object{"active": true})))
	}
	v, _ := p.asks(t)
	for _, token := range []string{
		raw(`{"alg":"none"}`, payload(claims(nil)), ""),
		raw(`{"alg":"HS256"}`, payload(claims(nil)), "x"),
		raw(`{"alg":"ES256","kid":"a"}`, payload(claims(nil)), "x"),
		raw(`{"alg":"ES256","kid":"a"}`, payload(claims(object{"iss": "https://evil.example.com"})), "x"),
	} {
		_, err := v.Verify(t.Context(), token, resource)
		refusal(t, err)
	}
	if n := p.count("/introspect"); n > 0 {
		t.Errorf("%d questions", n)
	}
}

func TestIntrospectionFails(t *testing.T) {
	reply := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example.com/stolen", http.StatusTemporaryRedirect)
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		log    string
	}{
		{"bad secret", reply(401, ""), "clientId and clientSecret"},
		{"not permitted", reply(403, ""), "clientId and clientSecret"},
		{"fails", reply(500, ""), "500"},
		{"not there", reply(404, ""), "404"},
		{"redirects", redirect, "307"},
		{"no JSON", reply(200, "<html>"), "JSON"},
		{"does not say", reply(200, `{"sub":"u1"}`), "active"},
		{"says it in text", reply(200, `{"active":"true"}`), "active"},
		{"deep", reply(200, strings.Repeat("[", 5000)), "deeper"},
		{"long", reply(200, `{"active":true,"x":"`+strings.Repeat("x", maxTokenReply)+`"}`), "longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newIDP()
				p.introspect = tt.answer
				v, logs := p.asks(t)
				for range 3 {
					_, err := v.Verify(t.Context(), "opaque", resource)
					if !errors.Is(err, ErrUnavailable) {
						t.Errorf("the error is %v", err)
					}
					time.Sleep(retryTime)
				}
				all := logs.All()
				if len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].ContextMap()["error"]), tt.log) {
					t.Fatalf("the log is %v", all)
				}
				if text := fmt.Sprint(all[0].ContextMap()); strings.Contains(text, "opaque") || strings.Contains(text, clientSecret) {
					t.Errorf("the log has a secret: %s", text)
				}
				if n := p.count("/stolen"); n > 0 {
					t.Error("it followed a redirect")
				}
				p.set(func() { p.answers(t, nil) })
				_, err := v.Verify(t.Context(), "opaque", resource)
				expect.OK(t, err)
				expect.Equal(t, len(logs.All()), 2, "the log is %v", logs.All())
			})
		})
	}
}

func TestIntrospectionWithoutEndpoint(t *testing.T) {
	p := newIDP()
	p.metadata = object{"introspection_endpoint": ""}
	v, _ := p.asks(t)
	if _, err := v.Verify(t.Context(), "opaque", resource); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestAnswersAboutTokensCountAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.answers(t, object{"exp": time.Now().Add(time.Hour).Unix()})
		v, _ := p.asks(t)
		check := func(valid bool, questions int) {
			t.Helper()
			_, err := v.Verify(t.Context(), "opaque", resource)
			expect.Equal(t, err == nil, valid, "after %v: %v", time.Since(epoch), err)
			expect.Equal(t, p.count("/introspect"), questions, "after %v: … questions", time.Since(epoch))
		}
		check(true, 1)
		p.set(func() { p.answers(t, object{"active": false}) }) // revoked
		time.Sleep(59 * time.Second)
		check(true, 1)
		time.Sleep(time.Second)
		check(false, 2)
		p.set(func() { p.answers(t, object{"exp": time.Now().Add(time.Hour).Unix()}) })
		time.Sleep(9 * time.Second)
		check(false, 2)
		time.Sleep(time.Second)
		check(true, 3)
	})
}

// Strangers with garbage do not use up the issuer, nor keep out a token that was valid.
func TestStrangersDoNotUseUpTheIssuer(t *testing.T) {
	for name, takes := range map[string]time.Duration{"fast": 0, "slow": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newIDP()
				p.answers(t, object{"exp": time.Now().Add(time.Hour).Unix()})
				answer := p.introspect
				var at, most atomic.Int32
				p.introspect = func(w http.ResponseWriter, r *http.Request) {
					n := at.Add(1)
					defer at.Add(-1)
					for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
					}
					if r.FormValue("token") != "opaque" {
						time.Sleep(takes)
					}
					answer(w, r)
				}
				v, _ := p.asks(t)
				verify := func(token string) error {
					_, err := v.Verify(t.Context(), token, resource)
					return err
				}
				began := time.Now()
				var wg sync.WaitGroup
				expect.OK(t, verify("opaque"))
				for n := range 1800 { // 3 minutes
					for m := range 5 {
						wg.Go(func() {
							if verify(fmt.Sprint("garbage", n, ".", m)) == nil {
								t.Error("garbage is valid")
							}
						})
					}
					synctest.Wait()
					expect.OK(t, verify("opaque"), "after %v", time.Since(began))
					time.Sleep(100 * time.Millisecond)
				}
				wg.Wait()
				if most := most.Load(); most > maxUnseen+1 {
					t.Errorf("%d questions at once", most)
				}
				if n, most := p.count("/introspect"), unseenBurst+10+int(time.Since(began).Seconds())*unseenRate; n > most {
					t.Errorf("%d questions, more than %d", n, most)
				}
			})
		})
	}
}

// Garbage from one network does not keep out new tokens from others.
func TestStrangersOfOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.answers(t, nil)
		v, _ := p.asks(t)
		verify := func(network, token string) error {
			_, err := v.Verify(clientauth.From(t.Context(), network), token, resource)
			return err
		}
		for n := range 2 * unseenBurst {
			expect.Error(t, verify("192.0.2.1", fmt.Sprint("garbage", n)), "")
		}
		expect.Equal(t, p.count("/introspect"), unseenBurst, "questions")
		expect.OK(t, verify("192.0.2.2", "opaque"))
	})
}

func TestQuestionsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		var at, most atomic.Int32
		p.introspect = func(w http.ResponseWriter, _ *http.Request) {
			most.Store(max(most.Load(), at.Add(1))) // nearly: the sleep lets the others come
			defer at.Add(-1)
			time.Sleep(100 * time.Millisecond)
			io.WriteString(w, payload(claims(object{"active": true})))
		}
		v, _ := p.asks(t)
		const tokens = 50
		for n := range tokens {
			_, err := v.Verify(t.Context(), fmt.Sprint("known", n), resource)
			expect.OK(t, err)
		}
		time.Sleep(keepTime)
		var wg sync.WaitGroup
		for n := range tokens {
			wg.Go(func() {
				if _, err := v.Verify(t.Context(), fmt.Sprint("known", n), resource); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most := most.Load(); most > maxQuestions || most <= maxUnseen {
			t.Errorf("%d questions at once", most)
		}
		expect.Equal(t, p.count("/introspect"), 2*tokens, "questions")
	})
}

func TestOneQuestionForEqualTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.answers(t, nil)
		v, _ := p.asks(t)
		hold := make(chan struct{})
		p.hold = hold
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { // the one that asks goes away
			if _, err := v.Verify(ctx, "opaque", resource); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if _, err := v.Verify(t.Context(), "opaque", resource); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		wg.Wait()
		expect.Equal(t, p.count("/introspect"), 1, "questions")
	})
}

// Two issuers: the second knows the token, and one that is down may know it.
func TestSeveralIssuersAreAsked(t *testing.T) {
	a, b := newIDP(), newIDP()
	b.url = "https://b.example.com"
	a.answers(t, object{"active": false})
	b.answers(t, object{"iss": b.url})
	newVerifier := func() *testVerifier {
		settings := Issuer{URL: a.url, ClientID: clientID, ClientSecret: clientSecret, Introspect: true}
		other := settings
		other.URL = b.url
		return a.and(t, b, settings, other)
	}
	first := newVerifier()
	got, err := first.Verify(t.Context(), "opaque", resource)
	if err != nil || got.Issuer != b.url {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = newVerifier().Verify(t.Context(), "unknown", resource)
	refusal(t, err)
	a.set(func() { a.down = errors.New("no route to host") })
	asked := b.count("/introspect")
	for _, token := range []string{"unknown", "opaque"} {
		if _, err = newVerifier().Verify(t.Context(), token, resource); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
	expect.Equal(t, b.count("/introspect")-asked, 0, "an issuer is shown … tokens that may be those of the one before it")
	first.kept.put(sha256.Sum256([]byte("opaque")), verdict{token: &verified{Token: new(Token), issuer: first.issuer(first.accepted[1], first.accepted)}, issuer: first.issuer(first.accepted[1], first.accepted)}, seenTime)
	if got, err = first.Verify(t.Context(), "opaque", resource); err != nil || got.Issuer != b.url {
		t.Errorf("a token that the second issuer knew, while the first is down: %+v, %v", got, err)
	}
	b.set(func() { b.down, a.down = a.down, nil })
	if _, err = newVerifier().Verify(t.Context(), "opaque", resource); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// A token that was valid stays known as its issuer's own, however often it is refused.
func TestEndedTokenIsGenuine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.answers(t, nil)
		v, _ := p.asks(t)
		_, err := v.Verify(t.Context(), "opaque", resource)
		expect.OK(t, err)
		p.answers(t, object{"active": false})
		time.Sleep(keepTime + time.Second)
		for range 3 {
			_, err := v.Verify(t.Context(), "opaque", resource)
			if !refusal(t, err).Genuine {
				t.Errorf("%v", err)
			}
			time.Sleep(inactiveTime + time.Second)
		}
		v.Close()
	})
}

// Who comes after an edit does not get the answer to a question that was asked by the settings before it.
func TestQuestionAcrossAnEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		p.answers(t, nil)
		answer, goOn := p.introspect, make(chan bool)
		p.introspect = func(w http.ResponseWriter, r *http.Request) { <-goOn; answer(w, r) }
		v, _ := p.asks(t)
		edited := v.accepted[0]
		edited.Introspect = false
		for i, settings := range []Issuer{v.accepted[0], edited} {
			go func() {
				_, err := v.Verifier.Verify(t.Context(), []Issuer{settings}, "opaque", resource)
				expect.Equal(t, err == nil, i == 0, fmt.Sprint(err))
			}()
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		v.Close()
	})
}
