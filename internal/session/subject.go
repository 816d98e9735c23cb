package session

import (
	"context"
	"fmt"
)

// A Subject is the access token with which a client has sent a request, for servers that get another token in exchange for it. The
// zero value is for a client which was let in otherwise.
type Subject struct {
	Principal string // of the client, as in [Caller]
	Token     string
	Issuer    string // its URL

	ClientID, ClientSecret string // of the router at the issuer; may be ""

	Proves func(context.Context) bool // reports whether the token still proves the principal; nil if it does for good
}

type subjectKey struct{}

// WithSubject returns the context of a request that was sent with the token.
func WithSubject(ctx context.Context, s Subject) context.Context {
	if s.Token == "" {
		return ctx
	}
	return context.WithValue(ctx, subjectKey{}, s)
}

// SubjectOf returns the token of the principal with which a request was sent; the zero value if it was another principal's.
func SubjectOf(ctx context.Context, principal string) Subject {
	if s, _ := ctx.Value(subjectKey{}).(Subject); s.Principal == principal {
		return s
	}
	return Subject{}
}

// Format prints the subject for all verbs without its secrets.
func (s Subject) Format(to fmt.State, _ rune) { fmt.Fprintf(to, "token of %s", s.Issuer) }
