package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// secrets are the texts of URLs that nothing may show, longer ones first.
type secrets []string

func secretsOf(all []string) secrets {
	s := urls.NATSSecrets(all)
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) }) // a shorter one may be a part
	return s
}

func (s secrets) clean(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}

// short returns a text of the server as people may be shown it.
func short(text string) string { return prose.Cut(plain.Line(text), maxText) }

// An explained is an error with a sentence for people, which names the solution.
type explained struct {
	words string
	cause error
}

func (e *explained) Error() string { return e.words }
func (e *explained) Unwrap() error { return e.cause }

func (l *Link) explained(err error) error { return &explained{l.words(err), err} }

func (l *Link) words(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var network *net.OpError
	var alert tls.AlertError
	var lookup *net.DNSError
	var waiting net.Error
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "no computer is called " + short(lookup.Name) + `; correct "urls", or check the network (VPN, DNS)`
	case errors.Is(err, nats.ErrNoServers), errors.As(err, &network) && network.Op == "dial":
		return "no NATS server answers at " + l.addresses() + `; start one there, or correct "urls"`
	case errors.Is(err, nats.ErrTimeout), errors.As(err, &waiting) && waiting.Timeout(): // a server of another protocol waits for us to speak first
		return "the computer at " + l.addresses() + ` does not answer as a NATS server; correct the port in "urls", or look at the firewall`
	case errors.Is(err, nats.ErrAuthorization):
		if l.options.Config.Creds != "" {
			return "the NATS server at " + l.addresses() + ` refuses the login with "creds"; add this user to the server (for "node.nk", the key that 'metarouter nodes key' prints), or correct "creds"`
		}
		return "the NATS server at " + l.addresses() + ` refuses the login; set "creds" to a credentials file or the seed of an nkey, or correct the user and password in "urls"`
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return `the NATS credentials have expired; put new ones into the file of "creds"`
	case errors.Is(err, nats.ErrAuthRevoked):
		return `the NATS credentials were revoked; put new ones into the file of "creds"`
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return "the NATS server at " + l.addresses() + ` knows no nkeys; correct "urls", remove "creds", or add the user to the server`
	case errors.Is(err, nats.ErrSecureConnRequired):
		return `the NATS server wants TLS; write tls: in "urls", and set "tls" if its certificate is of an authority of yours`
	case errors.Is(err, nats.ErrSecureConnWanted):
		return `the NATS server has no TLS, which the configuration asks for; set TLS up there, or write nats: in "urls" and remove "tls"`
	case errors.As(err, &unknown):
		return `the certificate of the NATS server is of an unknown authority; set "ca" in "tls" to the authority's certificate`
	case errors.As(err, &name):
		return `the certificate of the NATS server has another name than the one in "urls"; ` + short(l.masked.clean(name.Error()))
	case errors.Is(err, nats.ErrTLS), errors.As(err, &alert):
		return `the NATS server ends the TLS handshake; if it asks for certificates of clients, set "cert" and "key" in "tls" to one that it accepts (` + short(l.masked.clean(err.Error())) + ")"
	case errors.Is(err, io.EOF):
		return "the NATS server has closed the connection"
	case errors.Is(err, nats.ErrStaleConnection):
		return "the NATS server did not answer for some seconds"
	}
	return short(l.masked.clean(strings.TrimPrefix(err.Error(), "nats: ")))
}

// addresses returns the URLs of the configuration without credentials.
func (l *Link) addresses() string {
	var all []string
	for _, text := range l.options.Config.URLs {
		if u, err := url.Parse(text); err == nil {
			u.User = nil
			all = append(all, u.String())
		}
	}
	return strings.Join(all, ", ")
}
