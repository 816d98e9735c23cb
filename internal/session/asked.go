package session

import "context"

type askedKey struct{}

// WithAsked returns a context for [Client.Ask]: the client calls asked once it has taken the question, and calls the
// function that asked returned when there is an answer.
func WithAsked(ctx context.Context, asked func() (answered func())) context.Context {
	return context.WithValue(ctx, askedKey{}, asked)
}

// Asked says that a client has taken a question, for the function of [WithAsked].
func Asked(ctx context.Context) (answered func()) {
	if asked, ok := ctx.Value(askedKey{}).(func() func()); ok {
		return asked()
	}
	return func() {}
}
