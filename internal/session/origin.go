package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// An Origin is the client of a request, as another node that carries it out needs to know.
// The zero value is a client that nothing limits.
type Origin struct {
	// Profile names the profiles that limit the client, joined by "+"; may be "".
	Profile string `json:"profile,omitempty"`

	// Rules are these profiles as package internal/profile writes them; nil if nothing limits the
	// client.
	Rules json.RawMessage `json:"rules,omitempty"`

	// Principal identifies who calls: a hash, never a token. Name is its name. Both may be "".
	Principal string `json:"principal,omitempty"`
	Name      string `json:"name,omitempty"`

	// As is the name under which Rules know the server, if it is a replica of a service of that
	// name for the client; "" for its name at the client's node.
	As string `json:"as,omitempty"`
}

// NewOrigin returns the origin of a request. principal is a [Caller]'s, "" if it is not
// known. Another node gets another hash of it, which is of no use where tokens are compared by
// theirs.
func NewOrigin(profile string, rules json.RawMessage, principal, name string) *Origin {
	o := &Origin{Profile: profile, Rules: rules, Name: name}
	if principal != "" {
		sum := sha256.Sum256([]byte("metarouter: principal at another node\x00" + principal))
		o.Principal = hex.EncodeToString(sum[:])
	}
	return o
}

// A Run is where a request ran. A session that reaches its server by way of another node sets it.
type Run struct {
	Nodes    []string // the names of the other nodes on its way, that which ran it last; nil if it ran on this one
	Verified bool     // the signature of the node that ran it was checked
	Degraded bool     // a stand-in answered there
	Kept     bool     // the client has a session of its own with the server there
}
