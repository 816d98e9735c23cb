package bearer

import (
	"context"
	"crypto/rand"

	"go.uber.org/zap"
)

// Probe reads the metadata of an issuer, and its keys, once, and returns how many of the keys can
// verify tokens and how many can't. With Introspect it asks about a token that was never issued, by
// which the issuer shows whether it accepts the client's ID and secret. It takes 10 s at most. The
// error says why the issuer can't be read, or asked after the keys were read, and has no secret.
func Probe(ctx context.Context, settings Issuer) (usable, others int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	w := newWork()
	defer w.close()
	i := newIssuer(settings, client(settings), zap.NewNop(), w, newTurns())
	set, others, err := i.readKeys(ctx)
	if err != nil {
		return 0, 0, err
	}
	if settings.Introspect {
		_, err = i.opaque.post(ctx, rand.Text())
	}
	return len(set.all), others, err
}
