package config

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

const (
	maxExamined = 100     // mistakes that are kept of all files
	maxPEM      = 1 << 20 // bytes of a file of a certificate or a key
)

// Examine returns c with further problems, which only a look at the system shows: files that
// the command 'metarouter serve' refuses, and secrets that are not set. Load makes no such look, since a drive of a network may
// answer late or never. It writes nothing. A text that is not expanded is returned
// as it is; what Examine returned has no further problems.
func (c Config) Examine() Config {
	if c.env.asWritten || c.env.examines {
		return c
	}
	c.env.examines = true
	c.Problems = slices.Clone(c.Problems)     // with problems of callers, such as that there is no file
	examined, _ := assemble(c.sources, c.env) // its error was returned before
	c.Problems = append(c.Problems, slices.DeleteFunc(examined.Problems, func(p Problem) bool { return slices.Contains(c.Problems, p) })...)
	c.sortProblems()
	return c
}

// examined reports a mistake of the system, if that is looked at.
func (d *reports) examined(offset int, severity, mistake, fix string) {
	if d.looks++; d.looks <= maxExamined && d.env.examines {
		d.report(severity, offset, "%s; %s", paste(mistake), paste(fix))
	}
}

// examineFile reports a file that can't be used, if the system is looked at.
func (d *reports) examineFile(offset int, check func() error, mistake, fix string) {
	if !d.env.examines {
		return
	}
	if err := check(); err != nil {
		d.examined(offset, severityError, mistake+": "+strings.ReplaceAll(withoutPath(err).Error(), "\n", ", "), fix)
	}
}

// examineSecret reports a secret that is not set.
func (d *reports) examineSecret(offset int, name string) {
	if !d.env.examines {
		return
	}
	own, err := vault.Own()
	if err != nil {
		d.examined(offset, severityError, message("the secret %s is not set: %v", name, err), "set HOME")
	} else if names, err := own.Names(); err != nil {
		d.examined(offset, severityError, message("the secret %s can't be read: %v", name, err), "run 'metarouter secret list'")
	} else if !slices.Contains(names, name) {
		d.examined(offset, severityError, message("the secret %s is not set", name), "run: "+vault.SetCommand(name))
	}
}

// examineOpen reports that clients of other machines reach the router and need no token.
func examineOpen(d *decoder, h HTTP) {
	if !h.isPublic() || secret.Token() != "" {
		return
	}
	if host, _, _ := net.SplitHostPort(h.Addr); !urls.IsLoopback(host) {
		d.examined(d.at(atHTTP+".addr"), severityWarning,
			message("other machines reach %s, so 'metarouter serve --http' needs a token, and the configuration has none", h.Addr),
			`write "tokens": ["${ROUTER_TOKEN}"] next to "addr" and set ROUTER_TOKEN, start it with --token-file FILE, or listen on 127.0.0.1`)
	}
	if h.PublicURL != "" && urls.LeadsElsewhere(h.PublicURL) {
		d.examined(d.at(atHTTP+".publicUrl"), severityError,
			`clients of other machines come by this "publicUrl", so 'metarouter serve --http' needs a token, and the configuration has none`,
			`write "tokens": ["${ROUTER_TOKEN}"] next to it and set ROUTER_TOKEN, write "oauth", or remove "publicUrl"`)
	}
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
