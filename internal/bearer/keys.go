package bearer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	refreshAge  = 45 * time.Second // of keys that are read again while they are used
	mustAge     = 60 * time.Second // of keys that are not used before they are read again
	lastAge     = 24 * time.Hour   // of keys that are used while the issuer does not answer
	publishTime = 5 * time.Second  // after a key's first token, in which a read may lack the key: clocks differ
)

// Tokens with keys that are not in the set make it read keys so often, per issuer.
const (
	unknownEvery = 10 * time.Second
	unknownBurst = 3
)

// keys are the keys of an issuer, as last read. They are read in use only.
type keys struct {
	read    func(context.Context) (set *keySet, left int, err error)
	life    *signal.Life
	log     *zap.Logger
	unknown *rate.Limiter // of reads because of tokens with unknown keys

	mu      sync.Mutex    // guards the fields below
	set     *keySet       // nil before the first read
	setAt   time.Time     // when the read of set began
	checked time.Time     // when the last finished read began; zero before the first
	failed  error         // of that read, wraps ErrUnavailable
	under   chan struct{} // the read that is under way, closed at its end; may be nil
}

// current returns the keys in force. It waits for a read only if they were checked longer than
// mustAge ago. The error wraps ErrUnavailable or the error of ctx.
func (k *keys) current(ctx context.Context) (*keySet, error) {
	k.mu.Lock()
	now := time.Now()
	age, due := now.Sub(k.checked), refreshAge
	if k.failed != nil {
		due = retryTime
	}
	if k.under == nil && (k.checked.IsZero() || age >= due) {
		k.begin()
	}
	under := k.under
	set, err := k.inForce(now)
	k.mu.Unlock()
	if under == nil || err == nil && age < mustAge {
		return set, err
	}
	return k.await(ctx, under)
}

// renewed returns newer keys than old, in which the token's key is not. It returns old if they may
// not be read so soon, and were read since the token came or was issued: an issuer publishes a key
// before it signs with it. Else the key may be new, which is no reason to refuse the token.
func (k *keys) renewed(ctx context.Context, old *keySet, j *jwt) (*keySet, error) {
	k.mu.Lock()
	if k.set != old {
		defer k.mu.Unlock()
		return k.inForce(time.Now())
	}
	if k.under == nil && k.unknown.AllowN(time.Now(), 1) {
		k.begin()
	}
	under, checked := k.under, k.checked
	k.mu.Unlock()
	switch {
	case under != nil:
		return k.await(ctx, under)
	case checked.Before(j.came) && checked.Before(j.issued.Add(publishTime)):
		return nil, fmt.Errorf("%w: too many tokens with unknown keys came, and its keys are not read again so soon", ErrUnavailable)
	}
	return old, nil
}

// await waits for a read and returns the keys in force then.
func (k *keys) await(ctx context.Context, done <-chan struct{}) (*keySet, error) {
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce(time.Now())
}

// outage returns why keys that are not in the set can't be judged now; nil if the last read
// went well.
func (k *keys) outage() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// inForce returns the keys to use now. k.mu must be held.
func (k *keys) inForce(now time.Time) (*keySet, error) {
	switch {
	case k.set != nil && now.Sub(k.setAt) < lastAge:
		return k.set, nil
	case k.failed == nil:
		return nil, fmt.Errorf("%w: its keys were not read yet", ErrUnavailable)
	}
	return nil, k.failed
}

// begin begins to read the keys. k.mu must be held, and k.under be nil.
func (k *keys) begin() {
	done := make(chan struct{})
	if !k.life.Go(func() { k.run(done) }) {
		k.failed = errClosed
		return
	}
	k.under = done
}

// run reads the keys.
func (k *keys) run(done chan struct{}) {
	ctx, cancel := context.WithTimeout(k.life.Context(), requestTime)
	defer cancel()
	began := time.Now()
	set, left, err := k.read(ctx)

	k.mu.Lock()
	before, old := k.failed, k.set
	k.under, k.checked, k.failed = nil, began, nil
	if err != nil {
		k.failed = fmt.Errorf("%w: %w", ErrUnavailable, err)
	} else {
		set.follow(old)
		k.set, k.setAt = set, began
	}
	k.mu.Unlock()
	close(done)

	if k.life.Cause() == nil {
		report(k.log, before, err, "the keys of the issuer can't be read; those that are known, if any, stay in use", "the keys of the issuer can be read again")
	}
	if err == nil && len(set.all) == 0 && (old == nil || len(old.all) > 0) {
		k.log.Warn("the issuer has no key that can verify tokens: all are refused", zap.Int("unusable", left))
	}
}

// report logs that something begins to fail, or works again.
func report(log *zap.Logger, before, now error, failed, works string) {
	switch {
	case before == nil && now != nil:
		log.Warn(failed, zap.Error(now))
	case before != nil && now == nil:
		log.Info(works)
	}
}
