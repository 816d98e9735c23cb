package status

// A LoginReason says why a person must log in to a server.
type LoginReason string

const (
	NeverLoggedIn      LoginReason = "never_logged_in"
	LoginExpired       LoginReason = "expired"             // the tokens have expired or were revoked
	ScopeMissing       LoginReason = "scope_missing"       // the login does not permit the call
	IssuerUnreachable  LoginReason = "issuer_unreachable"  // the token could not be refreshed; tried again with the next call
	RefreshInterrupted LoginReason = "refresh_interrupted" // a router ended between a refresh and its end, and the issuer does not repeat its answer
	TokenRejected      LoginReason = "token_rejected"      // the server refuses a token that was just issued
)

// Text returns the reason as the end of a sentence about the server.
func (r LoginReason) Text() string {
	switch r {
	case NeverLoggedIn:
		return "nobody has logged in to it yet"
	case LoginExpired:
		return "its login has expired or was revoked"
	case ScopeMissing:
		return "its login does not permit this call"
	case IssuerUnreachable:
		return "its token has expired, and its issuer can't be reached"
	case RefreshInterrupted:
		return "the refresh of its token was interrupted"
	case TokenRejected:
		return "it refuses a token that was just issued"
	}
	return string(r)
}
