package httpd

import (
	"context"
	"crypto/x509"
	"time"
)

// An Issuer is an identity provider whose access tokens let clients in.
type Issuer struct {
	URL string

	// Read, Call and Admin are the scopes that stand for reading, for calls and for
	// administration, as the issuer names them.
	Read, Call, Admin []string

	// Revision changes with all that the configuration says of the issuer: what its tokens were
	// let in for under another one ends.
	Revision string

	// For logins of people on the page.
	ClientID     string   // of the router at the issuer; "" offers no login there
	ClientSecret string   // of ClientID; "" for a public client
	Audience     string   // that its tokens must name; "" is the resource
	Admins       []string // what users must be to have the role admin ("groups=ops"); one is enough
}

// An Authenticator knows principals by more than the tokens in [Options]. Its methods may be
// called by many goroutines at once.
type Authenticator interface {
	// Token returns what an access token proves for a resource, the public URL of an MCP path.
	// The error is a [*Refusal] if the token is bad. Any other error says that nobody knows now.
	Token(ctx context.Context, token, resource string) (Proof, error)

	// Certificate returns the Hash of the principal of [Options.Tokens] that a client certificate
	// stands for. It was verified. ok is false if it stands for none.
	Certificate(leaf *x509.Certificate) (hash string, ok bool)
}

// A Proof is what an access token proves.
type Proof struct {
	Principal Principal
	Issuer    string    // its URL
	Revision  string    // that of the Issuer by which the token was judged
	Scopes    []string  // of the token, as the issuer names them
	Expires   time.Time // of the token
}

// A Refusal is why an access token does not let its client in.
type Refusal struct {
	Status int      // 401 if the token is bad, 403 if it is good but not enough
	Scopes []string // that the client needs as well, if that is why; as the issuer names them
	Reason string   // for the client and for logs; never has the token
	Name   string   // of the token's user, for the audit log; "" if the token is bad or names no user
}

func (e *Refusal) Error() string { return e.Reason }
