package login

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// revokeTime bounds the request to forget tokens.
const revokeTime = 15 * time.Second

// errLoggedOut ends pending logins of the server.
var errLoggedOut = errors.New("the server was logged out meanwhile; begin the login again")

// Logout ends the login of the server: it forgets the tokens, and has the issuer revoke them. The
// error says which tokens the issuer did not revoke; the tokens are forgotten in any case. It also forgets
// at which issuer the client of the settings was used, so that the server may name another one. It
// reports whether there was anything to forget.
func (l *Logins) Logout(ctx context.Context, s oauth.Server) (was bool, err error) {
	id := key(s)
	l.mu.Lock()
	var pending []*Pending
	for _, p := range l.pending {
		if key(p.request.Server) == id {
			pending = append(pending, p)
		}
	}
	l.mu.Unlock()
	for _, p := range pending {
		p.giveUp(errLoggedOut)
		select {
		case <-p.Over.Done(): // if an answer was accepted, its tokens are forgotten below
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	source := l.Source(s)
	var saved *storedLogin
	if was, err = source.unpin(ctx); err == nil {
		saved, err = source.forget(ctx)
	}
	if err != nil {
		l.record(audit.ActorOf(ctx), s.Name, audit.Failed, "the login can't be ended: "+err.Error())
		return false, fmt.Errorf("%s: %w", s.Name, err)
	}
	if saved == nil {
		return was, nil
	}
	issuer := saved.Found.Issuer.ID
	l.log.Info("logged out", zap.String("server", s.Name), zap.String("issuer", issuer))
	l.record(audit.ActorOf(ctx), s.Name, audit.OK, "logged out")
	ctx, cancel := context.WithTimeout(ctx, revokeTime)
	defer cancel()
	if err := grantor(source.http, s.Settings, saved.Found, saved.Client).Revoke(ctx, saved.Token); err != nil {
		return true, fmt.Errorf("%s: the tokens are forgotten, but %s did not revoke them: %w", s.Name, issuer, err)
	}
	return true, nil
}
