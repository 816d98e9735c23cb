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

// Examine returns c with further problems, which only a look at the system shows: folders in the
// arguments of well-known servers that do not exist, files that the command 'metarouter serve'
// refuses, and secrets that are not set. It writes nothing. A text that is not expanded is returned
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

// atFolder looks whether a path is a folder, or a file if that may be in its place. The file has the
// path as written.
func atFolder(written, path string, orFile bool) look {
	return func(Router) (mistake, fix string) {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return message("the folder %q does not exist", written), "correct the path, or make the folder"
		case err == nil && !info.IsDir() && !orFile:
			return message("%q is not a folder", written), "write the path of a folder"
		}
		return "", ""
	}
}

// atLog looks whether the file of "accessLog" or "audit" can be appended to.
func atLog(key, path string) look {
	return func(r Router) (mistake, fix string) {
		used, example := path == r.AccessLog.File, "access.log"
		if key == "audit" {
			used, example = path == r.Audit.File && !r.Audit.Off, "audit.jsonl"
		}
		if err := safefile.CanAppend(path); err != nil && used {
			return message(`'metarouter serve' does not start with this %q: %v`, key, withoutPath(err)), fmt.Sprintf(`write the path of a file that may be created, such as %q: %q`, key, example)
		}
		return "", ""
	}
}

// atClientCA looks whether a file has certificates.
func atClientCA(path string) look {
	return func(r Router) (mistake, fix string) {
		if err := checkAuthorities(path); err != nil && path == r.HTTP.ClientCA {
			return message(`'metarouter serve --http' does not start with this "clientCA": %v`, err), "write the path of a PEM file with the certificates that sign those of clients"
		}
		return "", ""
	}
}

// atPair looks whether two files have a certificate and its key.
func atPair(cert, key string) look {
	return func(Router) (mistake, fix string) {
		if err := checkPair(cert, key); err != nil {
			return message(`'metarouter serve --http' does not start with this "tlsCert" and "tlsKey": %v`, strings.ReplaceAll(err.Error(), "\n", ", ")), "correct the paths: both files are PEM, and the key is that of the certificate"
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

// atPlainToken looks whether a token with a hash is a string, so that it has no name. The object is
// to be written in its place.
func atPlainToken(hash, object string) look {
	return func(r Router) (mistake, fix string) {
		if slices.ContainsFunc(r.HTTP.Tokens, func(t Token) bool { return t.Plain && t.Hash == hash }) {
			return `this token has no name, and its clients may use the page's actions too`, "write " + object + `, or "role": "use" for clients that only use tools`
		}
		return "", ""
	}
}

// atNATS looks whether a file for connections to NATS can be used. certKey is the key of a certificate.
func atNATS(key, path, certKey string) look {
	return func(r Router) (mistake, fix string) {
		if c := r.Cluster; c == nil || !slices.Contains([]string{c.Creds, c.TLS.CA, c.TLS.Cert}, path) {
			return "", ""
		}
		var err error
		switch key {
		case "ca":
			err = checkAuthorities(path)
		case "cert":
			err = checkPair(path, certKey)
		default:
			_, err = safefile.Read(path, maxPEM)
		}
		if err != nil {
			return message(`the router can't join its cluster with this %q: %v`, key, withoutPath(err)), "correct the path, or the file"
		}
		return "", ""
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
			d.examine(m.Name.StartOffset, severityWarning, atOpen(*to, func(h HTTP) string { return h.Addr },
				message("other machines reach %s, so 'metarouter serve --http' needs a token, and the configuration has none", *to),
				`write "tokens": ["${ROUTER_TOKEN}"] next to "addr" and set ROUTER_TOKEN, start it with --token-file FILE, or listen on 127.0.0.1`))
		}
	}
}

// examineFolders examines the folders among the arguments of a well-known server. args are the
// elements of the file, and s.Args their values.
func (d entryDecoder) examineFolders(s *Server, args []hujson.Value) {
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
		written, _ := keys.Text(args[f.Argument])
		d.examine(args[f.Argument].StartOffset, severityWarning, atFolder(f.Of(written), path, f.OrFile))
	}
}
