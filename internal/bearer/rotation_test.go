package bearer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A removed key is useless after 60 s, whether tokens came in between or not.
func TestRemovedKey(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 7 * time.Second, 20 * time.Second, 61 * time.Second} {
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t)
				s.want(t, s.token, "valid")
				time.Sleep(30 * time.Second)
				s.want(t, s.token, "valid")
				fresh := sign(s.key, jose.ES256, nil, claims(object{"sub": "u2"})) // never kept before the key is gone
				s.set(func() { s.keys = []jose.JSONWebKey{newKey("b", jose.ES256)} })
				removed := time.Now()
				for time.Since(removed) < 2*time.Minute {
					time.Sleep(pause)
					got := s.verify(t, s.token)
					if time.Since(removed) >= time.Minute && got != "refused: no key of its issuer verifies its signature" {
						t.Fatalf("%v after its key was removed the token is %s", time.Since(removed), got)
					}
				}
				s.want(t, fresh, "refused")
			})
		})
	}
}

// A key that stays in the set under the same name with other bytes, or for something else, is gone.
func TestReplacedKey(t *testing.T) {
	other, only384 := newKey("other", jose.ES256), newKey("a", jose.ES256)
	other.KeyID, only384.Algorithm = "a", "ES384"
	for name, k := range map[string]jose.JSONWebKey{"other bytes": other, "other algorithm": only384} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t)
				s.want(t, s.token, "valid")
				s.set(func() { s.keys = []jose.JSONWebKey{k} })
				time.Sleep(50 * time.Second)
				s.verify(t, s.token)
				synctest.Wait()
				s.want(t, s.token, "refused: its signature is wrong")
			})
		})
	}
}

func TestNewKeyIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		b := newKey("b", jose.ES256)
		s.set(func() { s.keys = append(s.keys, b) })
		s.want(t, sign(b, jose.ES256, nil, claims(nil)), "valid")
		expect.Equal(t, s.count("/keys"), 2, "reads")
	})
}

// A read that began before the issuer had the key does not make a good token bad.
func TestNewKeyDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		set, _ := s.v.known[Issuer{URL: idpURL}].keys.inForce(time.Now())
		b := newKey("b", jose.ES256)
		k := s.v.known[Issuer{URL: idpURL}].keys
		answered := make(chan struct{})
		read := k.read
		var reads atomic.Int32
		k.read = func(ctx context.Context) (*keySet, int, error) {
			if reads.Add(1) == 1 {
				<-answered
				return &keySet{all: set.all}, 0, nil // as it was before the key
			}
			return read(ctx)
		}
		time.Sleep(46 * time.Second)
		s.want(t, s.token, "valid")
		synctest.Wait()
		s.set(func() { s.keys = append(s.keys, b) })
		time.AfterFunc(time.Second, func() { close(answered) })
		s.want(t, sign(b, jose.ES256, nil, claims(nil)), "valid")
	})
}

func TestUnknownKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		began := time.Now()
		for n := range 600 { // a minute
			stranger := newKey("stranger", jose.ES256)
			stranger.KeyID = fmt.Sprint("unknown", n)
			old := claims(object{"iat": time.Now().Add(-time.Hour).Unix()})
			s.want(t, sign(stranger, jose.ES256, nil, old), "refused: no key of its issuer")
			time.Sleep(100 * time.Millisecond)
		}
		// 1 at first, unknownBurst at once, one each 10 s, and one when they were 45 s old.
		if n, most := s.count("/keys"), 2+unknownBurst+int(time.Since(began)/unknownEvery); n > most {
			t.Errorf("%d reads in a minute, more than %d", n, most)
		}
		s.want(t, s.token, "valid")
	})
}

// Strangers can't make a good token bad whose key is new; a token of a key that no later read has
// is refused.
func TestNewKeyAmongUnknownOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		stranger, b := newKey("stranger", jose.ES256), newKey("b", jose.ES256)
		forged := func() string { return sign(stranger, jose.ES256, nil, claims(nil)) }
		for range 2 * unknownBurst {
			s.verify(t, forged())
		}
		time.Sleep(publishTime)
		s.set(func() { s.keys = append(s.keys, b) })
		token, bad := sign(b, jose.ES256, nil, claims(nil)), forged()
		s.want(t, token, "unavailable")
		s.want(t, bad, "unavailable")
		s.want(t, sign(stranger, jose.ES256, nil, claims(object{"iat": nil})), "refused: no key")
		time.Sleep(unknownEvery)
		s.want(t, token, "valid")
		for range 2 * unknownBurst {
			s.want(t, bad, "refused: no key")
		}
	})
}

// What is made up leaves processors to others, and good tokens wait for their turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		turns := s.v.turns
		for range cap(turns) {
			turns <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fresh := sign(s.key, jose.ES256, nil, claims(nil))
		if _, err := s.v.Verify(ctx, fresh, resource); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a turn: %v", err)
		}
		s.want(t, s.token, "valid") // it is kept
		time.AfterFunc(time.Second, func() { <-turns })
		s.want(t, fresh, "valid")
		expect.Equal(t, len(turns), cap(turns)-1, "… of %d turns are taken", cap(turns))
	})
}

// Keys come and go while tokens are verified: a token is valid as long as its key is in the set,
// and never a minute after it was removed.
func TestRotationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		const generations, each = 12, 90 * time.Second
		var removed [generations]atomic.Int64 // in Unix nanoseconds
		var current atomic.Int32
		tokens := make([]string, generations)
		rotated := make([]jose.JSONWebKey, generations)
		end := time.Now().Add(24 * time.Hour).Unix()
		for n := range rotated {
			rotated[n] = newKey(fmt.Sprint("rotated", n), jose.ES256)
			tokens[n] = sign(rotated[n], jose.ES256, nil, claims(object{"exp": end}))
		}
		s.keys = rotated[:1]
		stop := time.Now().Add(generations * each)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(stop) {
					n := int(current.Load())
					if n > 0 && rand.IntN(2) == 0 {
						n = rand.IntN(n + 1)
					}
					gone := removed[n].Load()
					got := s.verify(t, tokens[n])
					switch {
					case got == "unavailable",
						gone == 0 && removed[n].Load() == 0 && got != "valid",
						gone != 0 && time.Since(time.Unix(0, gone)) >= time.Minute && got == "valid":
						t.Errorf("a token of generation %d is %s", n, got)
					}
					time.Sleep(time.Duration(1+rand.IntN(1000)) * time.Millisecond)
				}
			})
		}
		for n := 1; n < generations; n++ {
			time.Sleep(each / 2)
			s.set(func() { s.keys = rotated[n-1 : n+1] })
			current.Store(int32(n))
			time.Sleep(each / 2)
			s.set(func() { s.keys = rotated[n : n+1] })
			removed[n-1].Store(time.Now().UnixNano())
		}
		wg.Wait()
	})
}

// What counts is when a read began: the issuer may remove a key while it sends the set.
func TestKeyRemovedDuringSlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		k := s.v.issuer(s.v.accepted[0], s.v.accepted).keys
		read := k.read
		k.read = func(ctx context.Context) (*keySet, int, error) {
			set, left, err := read(ctx)
			time.Sleep(9 * time.Second)
			return set, left, err
		}
		removed := time.Now()
		time.AfterFunc(time.Second, func() { s.set(func() { s.keys = nil }) })
		for time.Since(removed) < 2*time.Minute {
			if got := s.verify(t, s.token); time.Since(removed) >= 61*time.Second && got == "valid" {
				t.Fatalf("its key was removed %v ago", time.Since(removed))
			}
			time.Sleep(time.Second)
		}
	})
}

// The issuer's keys move: the metadata are read again when the keys are not where they were.
func TestKeysMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.want(t, s.token, "valid")
		b := newKey("b", jose.ES256)
		s.set(func() {
			s.keys, s.status["/keys"] = []jose.JSONWebKey{b}, 404
			s.metadata = object{"jwks_uri": idpURL + "/moved"}
		})
		for range 70 {
			s.verify(t, s.token)
			time.Sleep(time.Second)
		}
		s.want(t, s.token, "refused")
		s.want(t, sign(b, jose.ES256, nil, claims(nil)), "valid")
	})
}
