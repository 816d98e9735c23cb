package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// maxNames bounds the lists of an issuer's document, and maxName the bytes of one name.
const (
	maxNames = 50
	maxName  = 256
)

// An issuerDocument is the metadata of an issuer (RFC 8414, RFC 8628).
type issuerDocument struct {
	oauthex.AuthServerMeta
	DeviceEndpoint string `json:"device_authorization_endpoint"`
}

// issuer finds the issuer's metadata. The error wraps errAbsent without metadata.
func (d *discovery) issuer(ctx context.Context, id string) (*Issuer, error) {
	document, err := d.fetcher.issuer(ctx, id)
	if err != nil {
		return nil, err
	}
	return d.usable(ctx, document, false)
}

// issuerURLs returns where an issuer may describe itself, in the order of revision 2025-11-25.
func issuerURLs(u *url.URL) []string {
	const oauth, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	origin := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	p := strings.TrimSuffix(u.EscapedPath(), "/")
	if p == "" {
		return []string{origin + oauth, origin + openID}
	}
	return []string{origin + oauth + p, origin + openID + p, origin + p + openID}
}

// issuerAt returns the issuer that the document at the URL describes. A document at another origin
// than its issuer's may lie: then the code of a login at the true issuer would go to a stranger. So
// it must name the token endpoint's host that the issuer names itself, if that describes itself.
func (d *discovery) issuerAt(ctx context.Context, at string) (*Issuer, error) {
	var document issuerDocument
	if err := d.fetcher.get(ctx, at, &document); err != nil {
		return nil, err
	}
	u, err := url.Parse(document.Issuer)
	if err == nil {
		err = d.fetcher.reach.check(ctx, u)
	}
	if err != nil || len(document.Issuer) > maxURL {
		return nil, fmt.Errorf("%s: its issuer is %s, which is no url that can be used", shown(at), clip(document.Issuer))
	}
	if place, err := url.Parse(at); err == nil && (!SameHost(place, u) || place.Scheme != u.Scheme) {
		self, err := d.fetcher.issuer(ctx, document.Issuer)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			return nil, fmt.Errorf("the issuer %s can't be asked whether %s describes it: %w", shown(document.Issuer), shown(at), err)
		case !sameEndpoint(self.TokenEndpoint, document.TokenEndpoint):
			return nil, fmt.Errorf("%s describes the issuer %s with the token endpoint %s, the issuer itself with %s",
				shown(at), shown(document.Issuer), shown(document.TokenEndpoint), shown(self.TokenEndpoint))
		}
	}
	return d.usable(ctx, &document, true)
}

// usable returns the issuer if logins at it are possible. silent permits that it does not say
// whether it supports PKCE.
func (d *discovery) usable(ctx context.Context, m *issuerDocument, silent bool) (*Issuer, error) {
	browser := d.settings.Grant == "" || d.settings.Grant == AuthorizationCode
	methods := m.CodeChallengeMethodsSupported
	if browser && !slices.Contains(methods, "S256") && !(silent && len(methods) == 0) {
		return nil, fmt.Errorf("the issuer %s does not say that it supports PKCE with S256 (code_challenge_methods_supported), "+
			"without which others could use a login; if it does support it, put the URL of its metadata into authServerMetadataUrl", shown(m.Issuer))
	}
	all := m.endpoints()[:forLogins]
	all[0].needed, all[1].needed, all[2].needed = true, browser, d.settings.Grant == DeviceCode
	if err := d.fetcher.checkEndpoints(ctx, m.Issuer, all); err != nil {
		return nil, err
	}
	return m.issuer(), nil
}

// forLogins is how many of the endpoints are for logins: the first ones.
const forLogins = 5

func (m *issuerDocument) endpoints() []endpoint {
	return []endpoint{
		{name: "token_endpoint", url: m.TokenEndpoint},
		{name: "authorization_endpoint", url: m.AuthorizationEndpoint},
		{name: "device_authorization_endpoint", url: m.DeviceEndpoint},
		{name: "registration_endpoint", url: m.RegistrationEndpoint},
		{name: "revocation_endpoint", url: m.RevocationEndpoint},
		{name: "introspection_endpoint", url: m.IntrospectionEndpoint},
		{name: "jwks_uri", url: m.JWKSURI},
	}
}

// issuer returns the issuer that the document describes.
func (m *issuerDocument) issuer() *Issuer {
	return &Issuer{
		ID:                    m.Issuer,
		AuthorizationEndpoint: m.AuthorizationEndpoint,
		TokenEndpoint:         m.TokenEndpoint,
		RegistrationEndpoint:  m.RegistrationEndpoint,
		DeviceEndpoint:        m.DeviceEndpoint,
		RevocationEndpoint:    m.RevocationEndpoint,
		IntrospectionEndpoint: m.IntrospectionEndpoint,
		KeysURL:               m.JWKSURI,
		Scopes:                namedScopes(m.ScopesSupported),
		AuthMethods:           names(m.TokenEndpointAuthMethodsSupported),
		SigningAlgorithms:     names(m.TokenEndpointAuthSigningAlgValuesSupported),
		Grants:                names(m.GrantTypesSupported),
		ClientDocuments:       m.ClientIDMetadataDocumentSupported,
		SendsIssuer:           m.AuthorizationResponseIssParameterSupported,
	}
}

// sameEndpoint reports whether two endpoints have the same host.
func sameEndpoint(a, b string) bool {
	first, err := url.Parse(a)
	second, err2 := url.Parse(b)
	return err == nil && err2 == nil && SameHost(first, second)
}

// names returns a list of an issuer without names that are too long; nil stays nil.
func names(all []string) []string {
	if all == nil {
		return nil
	}
	kept := []string{}
	for _, name := range all[:min(len(all), maxNames)] {
		if len(name) <= maxName {
			kept = append(kept, name)
		}
	}
	return kept
}
