package bearer

import (
	"context"
	"errors"

	"go.uber.org/zap"
)

// Probe reads the metadata of an issuer, and its keys, once, and returns how many of the keys can
// verify tokens and how many can't. It takes 10 s at most. The error says what can't be read, and
// has no secret.
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
		m, err := i.describe(ctx)
		if err == nil && m.IntrospectionEndpoint == "" {
			err = errors.New("its metadata name no introspection_endpoint, which \"introspect\" needs")
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return len(set.all), others, nil
}
