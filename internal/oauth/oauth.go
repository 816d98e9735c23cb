// Package oauth speaks OAuth 2.1 as the client of one remote MCP server, as the authorization
// part of the MCP specification asks for it.
//
// It finds out who issues tokens for a server ([Discover]), agrees with that issuer on who the
// client is ([Identify]), and asks it for tokens ([Grantor]). It keeps nothing: package login
// does.
package oauth

import (
	"slices"
	"strings"
	"time"
)

// A Server is a remote MCP server for which tokens are needed.
type Server struct {
	Name      string // in the configuration
	URL       string // of its MCP endpoint
	Principal string // whose login is meant: a hash; "" is the local user's, or the one of all clients
	Settings  Settings
}

// Settings say how to get tokens for a server: the "oauth" object of its entry, with the values
// of its secrets. Its fields are those of config.OAuth, which is converted to it. The zero value finds everything out.
type Settings struct {
	ClientID     string // registered by hand; "" is an identity that the issuer accepts without
	CallbackPort int    // on which the login comes back; 0 is any free one

	AuthServerMetadataURL string   // where the issuer describes itself; "" finds it
	Scopes                []string // to ask for; nil is those that the server names

	ClientSecret string // of ClientID; "" for a public client
	PrivateKey   string // of ClientID, in PEM, with which it signs who it is; may be ""
	KeyID        string // of PrivateKey; "" leaves it out
	Algorithm    string // of PrivateKey, such as ES256; "" is the usual one for the key

	CallbackURL       string // at which it comes back instead, and from where a person forwards it to CallbackPort; ""
	ClientMetadataURL string // of a client ID metadata document; may be ""

	Resource   string // the resource parameter (RFC 8707); "" is the server's identifier
	NoResource bool   // send no resource parameter: some issuers refuse it
	Grant      string // how the client gets its first token: one of those below
}

const (
	AuthorizationCode = "authorization_code" // a person logs in with a browser; also ""
	ClientCredentials = "client_credentials" // the client has a secret or a key, and no person is needed
	DeviceCode        = "device_code"        // a person enters a code on any device
)

// An Issuer is an authorization server, as it describes itself (RFC 8414, RFC 8628). Its endpoints
// may be "", and its lists nil: then it does not say.
type Issuer struct {
	ID string `json:"issuer"` // a URL

	AuthorizationEndpoint string `json:"authorization_endpoint,omitempty"`
	TokenEndpoint         string `json:"token_endpoint,omitempty"`
	RegistrationEndpoint  string `json:"registration_endpoint,omitempty"` // "" if clients can't register themselves
	DeviceEndpoint        string `json:"device_authorization_endpoint,omitempty"`
	RevocationEndpoint    string `json:"revocation_endpoint,omitempty"`
	IntrospectionEndpoint string `json:"introspection_endpoint,omitempty"` // that answers questions about tokens (RFC 7662)
	KeysURL               string `json:"jwks_uri,omitempty"`               // of the keys that sign its tokens

	Scopes            []string `json:"scopes_supported,omitempty"`
	AuthMethods       []string `json:"token_endpoint_auth_methods_supported,omitempty"`            // of clients
	SigningAlgorithms []string `json:"token_endpoint_auth_signing_alg_values_supported,omitempty"` // of clients' assertions
	Grants            []string `json:"grant_types_supported,omitempty"`
	PKCE              []string `json:"code_challenge_methods_supported,omitempty"`
	ClientDocuments   bool     `json:"client_id_metadata_document_supported,omitempty"`          // it reads them
	SendsIssuer       bool     `json:"authorization_response_iss_parameter_supported,omitempty"` // it puts iss into authorization responses (RFC 9207)
}

// A Found is the issuer of a server's tokens, with the server's metadata.
type Found struct {
	Resource string   // the server's identifier for the resource parameter
	Scopes   []string // that the server names in its metadata; may be nil
	Issuer   Issuer
	Asserted bool // some metadata was found; without them, and without a TokenEndpoint, the server has no OAuth
}

// A Challenge is in a server's refusal of a request (WWW-Authenticate).
type Challenge struct {
	MetadataURL string   // of the protected resource metadata; may be ""
	Scopes      []string // that the request needs; may be nil
	Error       string   // such as "insufficient_scope"; may be ""
}

// A Client is who the router is for an issuer.
type Client struct {
	ID          string    `json:"id"`
	Secret      string    `json:"secret,omitempty"`
	AuthMethod  string    `json:"auth_method"`            // at the token endpoint: none, client_secret_basic, client_secret_post or private_key_jwt
	RedirectURI string    `json:"redirect_uri,omitempty"` // that it was registered with
	Registered  bool      `json:"registered,omitempty"`   // by us, so that it is kept and can be replaced
	Expires     time.Time `json:"expires,omitzero"`       // of the secret; zero for never
}

// A Token is a token that an issuer granted.
type Token struct {
	Access   string    `json:"access"`
	Refresh  string    `json:"refresh,omitempty"` // may be ""
	Obtained time.Time `json:"obtained"`          // by our clock
	Expires  time.Time `json:"expires,omitzero"`  // of Access; zero if the issuer does not say
	Scopes   []string  `json:"scopes,omitempty"`  // that were granted: as asked for if the issuer does not say
}

// A Refusal is an error of an issuer (RFC 6749, section 5.2).
type Refusal struct {
	Code        string // such as "invalid_grant"
	Description string // in the issuer's words, bounded and on one line; ""
	Status      int    // of the HTTP response
}

func (e *Refusal) Error() string {
	text := "the issuer refuses: " + e.Code
	if e.Description != "" {
		text += " (" + e.Description + ")"
	}
	switch {
	case e.Code == "invalid_target", strings.Contains(e.Description, "AADSTS9010"): // Entra's words
		text += `; if it knows no resource parameter, put "oauth": {"resource": false} into the server's entry`
	case e.Code == "invalid_scope":
		text += `; put "oauth": {"scopes": […]} with those that it knows into the server's entry`
	}
	return text
}

// Union returns all scopes of both, each once, the scopes of a first.
func Union(a, b []string) []string {
	all := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}
