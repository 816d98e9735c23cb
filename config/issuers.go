package config

// An Issuer is an identity provider whose access tokens let HTTP clients in.
type Issuer struct {
	URL          string              // the issuer identifier, as tokens name it in "iss"
	Audience     string              // that tokens must name in "aud"; "" is the URL of the MCP path that is asked for
	User         string              // the claim that names the user; default "sub"
	Profiles     []ProfileRule       // users get the profiles of all rules that match, together; users whom none matches are refused
	Admins       []Claim             // users whom one matches have the role admin
	Scopes       map[string][]string // "scopeMap": the issuer's own scopes → mcp:read, mcp:call, mcp:admin
	KeysURL      string              // "jwksUrl", where its keys are; "" is where its metadata say
	ClientID     string              // of the router at the issuer, for introspection and logins of the page; "" for none
	ClientSecret string              // of ClientID; "" for a public client
	Introspect   bool                // ask the issuer, as ClientID, about tokens that are no JWT
}

// A Claim is what a token may say of its user: "groups=devs". The name "*" without a value
// matches every user.
type Claim struct{ Name, Value string }

// A ProfileRule gives a profile to users.
type ProfileRule struct {
	Claim   Claim
	Profile string
}

// A Certificate is whom certificates of clients let in.
type Certificate struct {
	Subject string // such as "CN=build" or "DNS=build.example.com,O=Acme"; all parts must match
	Name    string // of the principal; default Subject
	Profile string // "" is no profile of its own
	Role    Role
	Rate    Rate // of the requests with this certificate; the zero value is that of all clients
}

// An Audit says whether and where the audit log is written.
type Audit struct {
	Off      bool   // "audit": false
	File     string // absolute path; "" is audit.jsonl in the data folder
	MaxSize  int64  // bytes of a file, after which another is begun; default 10 MiB
	MaxFiles int    // number of files that are kept, including the current one; default 10
}
