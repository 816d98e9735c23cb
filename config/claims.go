package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/clientcert"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// A claim is what a file says about the system and what only a look at the system can
// contradict. Load makes no such look, since a drive of a network may answer late or never.
type claim struct {
	about   Problem // the place, without a message
	kind    claimKind
	text    string // as the file has it
	path    string // absolute
	keyPath string // of a certificate
	paste   string // what to write instead
	orFile  bool   // a file is right where a folder is
}

type claimKind int

const (
	claimFolder     claimKind = iota // the folder exists
	claimLog                         // the file of the log in text can be appended to
	claimClientCA                    // the file holds certificates
	claimTLS                         // the two files hold a certificate with its key
	claimAddress                     // clients of other machines need a token
	claimPublicURL                   // clients of other machines need a token
	claimSecret                      // a secret of this name is set
	claimPlainToken                  // the token with the hash in text need not be a string
	claimCluster                     // the file for connections to NATS, whose key is text, can be read
)

const (
	maxClaims = 100     // that are kept of all files
	maxPEM    = 1 << 20 // bytes of a file of a certificate or a key
)

func (d *reports) claim(offset int, c claim) {
	if d.env.asWritten || len(d.claims) >= maxClaims {
		return
	}
	c.about = d.source.problem(offset, "")
	c.about.Server = d.name
	d.claims = append(d.claims, c)
}

// Examine returns c with further problems, which only a look at the system shows: folders
// in the arguments of well-known servers that do not exist, files that the command
// 'metarouter serve' refuses, and secrets that are not set. It writes nothing. A text that is not expanded is returned as
// it is, and so is a second time what Examine returned.
func (c Config) Examine() Config {
	if len(c.claims) == 0 {
		return c
	}
	c.Problems = slices.Clone(c.Problems)
	for _, claim := range c.claims {
		what, fix := claim.refute(c.Router)
		if what == "" {
			continue
		}
		p := claim.about
		p.Message, p.Fix, p.Severity = what+"; "+fix, fix, severityError
		if claim.kind == claimFolder || claim.kind == claimAddress || claim.kind == claimPlainToken {
			p.Severity = severityWarning
		}
		c.Problems = append(c.Problems, p)
	}
	c.claims = nil
	c.sortProblems()
	return c
}

// refute says why the claim is wrong, and what to do; "" if it is not, or another file has
// overridden it.
func (c claim) refute(r Router) (what, fix string) {
	switch c.kind {
	case claimFolder:
		switch info, err := os.Stat(c.path); {
		case errors.Is(err, fs.ErrNotExist):
			return message("the folder %q does not exist", c.text), "correct the path, or make the folder"
		case err == nil && !info.IsDir() && !c.orFile:
			return message("%q is not a folder", c.text), "write the path of a folder"
		}
	case claimLog:
		inUse := c.text == "accessLog" && c.path == r.AccessLog.File || c.text == "audit" && c.path == r.Audit.File && !r.Audit.Off
		if err := safefile.CanAppend(c.path); err != nil && inUse {
			return message(`'metarouter serve' does not start with this %q: %v`, c.text, withoutPath(err)), fmt.Sprintf(`write the path of a file that may be created, such as %q: %q`, c.text, map[string]string{"accessLog": "access.log", "audit": "audit.jsonl"}[c.text])
		}
	case claimClientCA:
		if err := checkAuthorities(c.path); err != nil && c.path == r.HTTP.ClientCA {
			return message(`'metarouter serve --http' does not start with this "clientCA": %v`, err), "write the path of a PEM file with the certificates that sign those of clients"
		}
	case claimTLS:
		if err := checkPair(c.path, c.keyPath); err != nil {
			return message(`'metarouter serve --http' does not start with this "tlsCert" and "tlsKey": %v`, strings.ReplaceAll(err.Error(), "\n", ", ")), "correct the paths: both files are PEM, and the key is that of the certificate"
		}
	case claimSecret:
		own, err := configpath.Own()
		if err != nil {
			return message("the secret %s is not set: %v", c.text, err), "set HOME"
		}
		if names, err := vault.Of(own).Names(); err != nil {
			return message("the secret %s can't be read: %v", c.text, err), "run 'metarouter secret list'"
		} else if !slices.Contains(names, c.text) {
			return message("the secret %s is not set", c.text), "run: " + vault.SetCommand(c.text)
		}
	case claimAddress:
		if c.text == r.HTTP.Addr && r.HTTP.isPublic() && secret.Token() == "" {
			return message("other machines reach %s, so 'metarouter serve --http' needs a token, and the configuration has none", c.text), `write "tokens": ["${ROUTER_TOKEN}"] next to "addr" and set ROUTER_TOKEN, start it with --token-file FILE, or listen on 127.0.0.1`
		}
	case claimPublicURL:
		if c.text == r.HTTP.PublicURL && r.HTTP.isPublic() && secret.Token() == "" {
			return `clients of other machines come by this "publicUrl", so 'metarouter serve --http' needs a token, and the configuration has none`, `write "tokens": ["${ROUTER_TOKEN}"] next to it and set ROUTER_TOKEN, write "oauth", or remove "publicUrl"`
		}
	case claimCluster:
		if err := c.refuteCluster(r.Cluster); err != nil {
			return message(`the router can't join its cluster with this %q: %v`, c.text, err), "correct the path, or the file"
		}
	case claimPlainToken:
		if slices.ContainsFunc(r.HTTP.Tokens, func(t Token) bool { return t.Plain && t.Hash == c.text }) {
			return `this token has no name, and its clients may use the page's actions too`, "write " + c.paste + `, or "role": "use" for clients that only use tools`
		}
	}
	return "", ""
}

// refuteCluster says what is wrong with a file for connections to NATS, if the cluster has it.
func (c claim) refuteCluster(of *Cluster) error {
	if of == nil || !slices.Contains([]string{of.Creds, of.TLS.CA, of.TLS.Cert}, c.path) {
		return nil
	}
	switch c.text {
	case "ca":
		return checkAuthorities(c.path)
	case "cert":
		return checkPair(c.path, c.keyPath)
	}
	_, err := safefile.Read(c.path, maxPEM)
	return withoutPath(err)
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
		_, err = clientcert.Authorities(data)
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

// addressField returns the function that decodes "addr".
func addressField(d *decoder, to *string) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		set(d, to, keys.Text)(m)
		host, _, err := net.SplitHostPort(*to)
		if err != nil {
			d.mistake(m.Name.StartOffset, `"addr" must be an address with a port; write it like "127.0.0.1:8787"`)
			return
		}
		if !urls.IsLoopback(host) {
			d.claim(m.Name.StartOffset, claim{kind: claimAddress, text: *to})
		}
	}
}

// claimFolders finds the folders among the arguments of a well-known server. args are the
// elements of the file, and s.Args their values.
func (d entryDecoder) claimFolders(s *Server, args []hujson.Value) {
	if s.Transport != Stdio || s.Disabled || d.env.asWritten || len(args) != len(s.Args) {
		return
	}
	for _, f := range commandline.Folders(s.Command, s.Args) {
		path := f.Of(s.Args[f.Argument])
		if f.AtHome {
			path = d.env.atHome(path)
		}
		if !filepath.IsAbs(path) {
			if s.Cwd == "" || path == "" || strings.HasPrefix(path, "~") {
				continue // it depends on the folder of the router
			}
			path = filepath.Join(s.Cwd, path)
		}
		said, _ := keys.Text(args[f.Argument])
		d.claim(args[f.Argument].StartOffset, claim{kind: claimFolder, text: f.Of(said), path: path, orFile: f.OrFile})
	}
}
