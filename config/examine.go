package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// An examination looks at the system for a mistake that the text does not show. Load makes no such
// look, since a drive of a network may answer late or never.
type examination struct {
	at   Problem // the place and the severity, without a message
	look look
}

// A look returns a mistake of the files that r is the value of, and the correction. It returns "" if
// there is no mistake, or another file has replaced the value. It keeps no syntax tree in memory.
type look = func(r Router) (mistake, fix string)

const (
	maxExaminations = 100     // that are kept of all files
	maxPEM          = 1 << 20 // bytes of a file of a certificate or a key
)

// examine has [Config.Examine] look at the system.
func (d *reports) examine(offset int, severity string, look look) {
	if d.env.asWritten || len(d.examinations) >= maxExaminations {
		return
	}
	at := d.source.problem(offset, "")
	at.Server, at.Severity = d.name, severity
	d.examinations = append(d.examinations, examination{at, look})
}

// Examine returns c with further problems, which only a look at the system shows: files that
// the command 'metarouter serve' refuses, and secrets that are not set. It writes nothing. A text that is not expanded is returned
// as it is; what Examine returned has no further problems.
func (c Config) Examine() Config {
	if len(c.examinations) == 0 {
		return c
	}
	c.Problems = slices.Clone(c.Problems)
	for _, e := range c.examinations {
		if mistake, fix := e.look(c.Router); mistake != "" {
			p := e.at
			p.Message, p.Fix = mistake+"; "+fix, fix
			c.Problems = append(c.Problems, p)
		}
	}
	c.examinations = nil
	c.sortProblems()
	return c
}

// atFile looks whether a file that is used can be used. The mistake has the error.
func atFile(check func() error, isUsed func(Router) bool, mistake, fix string) look {
	return func(r Router) (string, string) {
		if err := check(); err != nil && isUsed(r) {
			return message(mistake, strings.ReplaceAll(withoutPath(err).Error(), "\n", ", ")), fix
		}
		return "", ""
	}
}

// atSecret looks whether a secret is set.
func atSecret(name string) look {
	return func(Router) (mistake, fix string) {
		own, err := configpath.Own()
		if err != nil {
			return message("the secret %s is not set: %v", name, err), "set HOME"
		}
		if names, err := vault.Of(own).Names(); err != nil {
			return message("the secret %s can't be read: %v", name, err), "run 'metarouter secret list'"
		} else if !slices.Contains(names, name) {
			return message("the secret %s is not set", name), "run: " + vault.SetCommand(name)
		}
		return "", ""
	}
}

// atOpen looks whether clients of other machines reach the router by an address of "http" and need no
// token.
func atOpen(address string, of func(HTTP) string, mistake, fix string) look {
	return func(r Router) (string, string) {
		if address == of(r.HTTP) && r.HTTP.isPublic() && secret.Token() == "" {
			return mistake, fix
		}
		return "", ""
	}
}

// atPlainToken looks whether a token with a hash is a string, so that it has no name.
func atPlainToken(hash string) look {
	return func(r Router) (mistake, fix string) {
		if slices.ContainsFunc(r.HTTP.Tokens, func(t Token) bool { return t.Plain && t.Hash == hash }) {
			return `this token has no name, and its clients may use the page's actions too`, `write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}, or "role": "use" for clients that only use tools`
		}
		return "", ""
	}
}

// examineFile examines a file for connections to NATS, of one of the formats.
func (d *reports) examineFile(format string, v hujson.Value, path string) {
	switch format {
	case "credentials":
		d.examine(v.StartOffset, severityError, atNATS("creds", path, func() error { _, err := safefile.Read(path, maxPEM); return err }))
	case "authorities":
		d.examine(v.StartOffset, severityError, atNATS("ca", path, func() error { return checkAuthorities(path) }))
	}
}

// atNATS looks whether a file for connections to NATS can be used.
func atNATS(key, path string, check func() error) look {
	return atFile(check, func(r Router) bool {
		c := r.Cluster
		return c != nil && slices.Contains([]string{c.Creds, c.TLS.CA, c.TLS.Cert}, path)
	}, fmt.Sprintf("the router can't join its cluster with this %q: %%v", key), "correct the path, or the file")
}

// checkPair says why two files do not hold a certificate and its key.
func checkPair(cert, key string) error {
	data, err := safefile.Read(cert, maxPEM)
	secret, keyErr := safefile.Read(key, maxPEM)
	if err = errors.Join(withoutPath(err), withoutPath(keyErr)); err == nil {
		_, err = tls.X509KeyPair(data, secret)
	}
	return err
}

// checkAuthorities says why a file does not hold certificates in PEM, and nothing else.
func checkAuthorities(path string) error {
	data, err := safefile.Read(path, maxPEM)
	if err == nil {
		_, err = clientauth.Authorities(data)
	}
	return withoutPath(err)
}

// withoutPath returns the error without a path, in which variables may be expanded.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

func (d *checker) checkListen(v hujson.Value, s string) error {
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New(`must be an address with a port; write it like "127.0.0.1:8787"`)
	}
	if !urls.IsLoopback(host) {
		d.examine(d.placeOf(v), severityWarning, atOpen(s, func(h HTTP) string { return h.Addr },
			message("other machines reach %s, so 'metarouter serve --http' needs a token, and the configuration has none", s),
			`write "tokens": ["${ROUTER_TOKEN}"] next to "addr" and set ROUTER_TOKEN, start it with --token-file FILE, or listen on 127.0.0.1`))
	}
	return nil
}
