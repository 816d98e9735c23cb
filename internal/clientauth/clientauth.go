// Package clientauth says who clients over HTTP are, and how they prove it: as principals of the configuration, or of an
// identity provider. It reads the subjects of clients' certificates, too.
package clientauth

import (
	"context"
	"crypto/x509"
	"time"
)

// A Principal is who a client has proved to be. The zero value has proved nothing.
type Principal struct {
	Hash    string // SHA-256 of its token, 64 hex digits in lower case; "" if requests need no token
	Name    string // in logs; "" without a token
	Claims  string // of its access token, those that entries name: a JSON object of texts; "" without
	Profile string // of its token, or a union of profiles ("dev|ops"); may be ""
	Reads   bool   // it may use only tools that just read
	Admin   bool   // it may use the pages' actions, and see the calls of others

	browser bool // that has logged in; set in the context of a request alone
}

// A principalKey is the key of who sends a request in its context.
type principalKey struct{}

// WithPrincipal returns the context of a request to a page with the principal who sends it. browser says
// that the principal is a browser that has logged in.
func WithPrincipal(ctx context.Context, p Principal, browser bool) context.Context {
	p.browser = browser
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns who sends a request to a page; without a name if requests need no token.
func PrincipalOf(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// LoggedIn reports whether a request to a page comes from a browser that has logged in.
func LoggedIn(ctx context.Context) bool { return PrincipalOf(ctx).browser }

// An Issuer is an identity provider. Its access tokens let clients in.
type Issuer struct {
	URL string

	// Read, Call and Admin are the scopes that stand for reading, for calls and for
	// administration, as the issuer names them.
	Read, Call, Admin []string

	// Rules decide together with the rest which users are let in. They are plain data, and only compared: sessions and requests
	// of an issuer end when an edit changes anything of it.
	Rules any

	// For logins of people on the page.
	ClientID     string   // of the router at the issuer; "" offers no login there
	ClientSecret string   // of ClientID; "" for a public client
	Audience     string   // that its tokens must name; "" is the resource
	Admins       []string // claims that give a user the role admin ("groups=ops"); one is enough
}

// An Authenticator knows principals by more than the tokens of the options. Its methods may be
// called by many goroutines at once.
type Authenticator interface {
	// Token returns the proof of an access token for a resource, the public URL of an MCP path.
	// The error is a [*Refusal] if the token is bad. Any other error says that the token can't be judged now.
	Token(ctx context.Context, token, resource string) (Proof, error)

	// Certificate returns the Hash of the principal of the options that a client certificate
	// stands for. It was verified. ok is false if it stands for no principal.
	Certificate(leaf *x509.Certificate) (hash string, ok bool)
}

// A Proof is the identity that an access token proves.
type Proof struct {
	Principal     Principal
	Issuer        string    // its URL
	Scopes        []string  // of the token, as the issuer names them
	MayAdminister bool      // one of the Scopes is for administration, whether or not the user is an admin
	Expires       time.Time // of the token
}

// A Refusal is why an access token does not let its client in.
type Refusal struct {
	Status  int      // 401 if the token is bad, 403 if it is good but not enough
	Genuine bool     // the issuer has issued it: it is not made up
	Scopes  []string // that the client needs as well, if that is why; as the issuer names them
	Reason  string   // for the client and for logs; never has the token
	Name    string   // of the token's user, for the audit log; "" if the token is bad or names no user
}

func (e *Refusal) Error() string { return e.Reason }
