package identity

import (
	"context"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// WithSubject returns a context for what the client asks for, with the access token that has let it in if an issuer's token has.
func (c *Sender) WithSubject(ctx context.Context) context.Context {
	if c.proof == nil || c.Rules.issuers[c.proof.Issuer] == nil {
		return ctx
	}
	i := c.Rules.issuers[c.proof.Issuer]
	return session.WithSubject(ctx, session.Subject{
		Principal: c.Principal.Hash, Token: c.token, Issuer: i.URL, ClientID: i.ClientID, ClientSecret: i.ClientSecret,
		Proves: c.proves,
	})
}
