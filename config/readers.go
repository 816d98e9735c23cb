package config

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// repaired returns a member with the numbers and booleans in its array or object as strings, and
// without nulls. Clients take such values, so the problem is a warning.
func (d *reports) repaired(m hujson.ObjectMember) hujson.ObjectMember {
	key := jsonc.Key(m)
	m.Value = textsOf(m.Value, func(offset int, path string, left bool) {
		if left {
			d.warn(offset, "%q is null, so it is left out; remove it, or write a string", key+path)
			return
		}
		d.warn(offset, "%q is no string, and is read as one; put it in quotes", key+path) // without the value, which may be secret
	})
	return m
}

// textsOf returns an array or an object with its numbers and booleans as strings, and without
// nulls. repaired, unless it is nil, is called with the place of each of these, its path
// in v, and whether it is left out. Other values are returned as they are.
func textsOf(v hujson.Value, repaired func(offset int, path string, left bool)) hujson.Value {
	repair := func(v *hujson.Value, offset int, path string) (keep bool) {
		kind := v.Value.Kind()
		if !strings.ContainsRune("0tfn", rune(kind)) {
			return true
		}
		if keep = kind != 'n'; keep {
			v.Value = hujson.String(string(v.Value.(hujson.Literal)))
		}
		if repaired != nil {
			repaired(offset, path, !keep)
		}
		return keep
	}
	switch value := v.Value.(type) {
	case *hujson.Array:
		a := *value
		a.Elements = nil
		for i, e := range value.Elements {
			if repair(&e, e.StartOffset, fmt.Sprintf("[%d]", i)) {
				a.Elements = append(a.Elements, e)
			}
		}
		v.Value = &a
	case *hujson.Object:
		o := *value
		o.Members = nil
		for _, m := range value.Members {
			if repair(&m.Value, m.Name.StartOffset, "."+jsonc.Key(m)) {
				o.Members = append(o.Members, m)
			}
		}
		v.Value = &o
	}
	return v
}

func transport(v hujson.Value) (Transport, error) {
	s, err := keys.Text(v)
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) {
	case "stdio", "local":
		return Stdio, err
	case "http", "streamablehttp":
		return StreamableHTTP, err
	case "sse":
		return SSE, err
	case "ws", "websocket":
		return "", errors.New(`can't be a WebSocket; write "http" and the server's http url`)
	}
	return "", errors.New(`must be "stdio", "http" or "sse"`)
}

// fit checks a text by a format of the schema, and returns it as it is used.
func (d *decoder) fit(format string, v hujson.Value, s string) (string, error) {
	switch format {
	case "glob":
		return s, checkPattern(s)
	case "regexp":
		return s, d.checkRegexp(s)
	case "scope":
		if s == "" || len(s) > maxWord || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || keys.Unprintable(r) }) {
			return s, fmt.Errorf(`must be one scope of the issuer, of at most %d characters without spaces; write it like "tools.read"`, maxWord)
		}
	case "category":
		d.mentions = append(d.mentions, mention{v.StartOffset, keys.Last(d.level), s})
	case "path":
		s = d.absolute(s)
	case "folder":
		if s != perClient {
			s = d.absolute(s)
		}
	case "root":
		return d.root(s)
	case "program":
		return d.env.atHome(s), nil
	case "listen":
		if _, _, err := net.SplitHostPort(s); err != nil {
			return s, errors.New(`must be an address with a port; write it like "127.0.0.1:8787"`)
		}
	case "public-url":
		return urls.Public(s)
	case "cluster-name":
		if !clusterName().MatchString(s) {
			return s, errors.New(nodeAt(d.level).Says)
		}
	case "node-key":
		return s, clusternode.CheckKey(s)
	case "redirect":
		if urls.Web(s) != nil {
			return "", nil // of another client: a text that is no whole URL has no effect
		}
	case "nats":
		_, err := urls.NATS(s)
		return s, err
	default:
		checks := map[string]func(string) error{"url": urls.Web, "document": urls.Document, "resource": urls.Resource, "issuer": urls.Issuer, "keys": urls.Keys}
		if check := checks[format]; check != nil {
			return s, check(s)
		}
	}
	return s, nil
}

// root returns a folder as an absolute path, or a file URI.
func (d *expander) root(s string) (string, error) {
	switch scheme, _, isURI := strings.Cut(s, "://"); {
	case isURI && scheme == "file":
		return s, nil
	case s == "" || isURI:
		return "", errors.New(`must be a folder or a file URI; write "./src" or "file:///home/ann/src"`)
	}
	return d.absolute(s), nil
}

func checkPattern(s string) error {
	switch _, err := glob.Parse(s); {
	case errors.Is(err, glob.ErrTooLong):
		return fmt.Errorf("must have at most %d bytes; write a shorter pattern with *", glob.MaxLength)
	case strings.TrimSpace(s) != s:
		return errors.New(`must be a name or a pattern without spaces around it; write it like "read_*"`)
	case err != nil:
		return errors.New(`must be a name or a pattern such as "read_*"; close every [, and write \\ before a [ that is meant literally`)
	}
	return nil
}

// A Rate limits the requests of one client. The zero value is no limit.
type Rate = rate.Limit
