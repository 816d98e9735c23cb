// Package urls finds mistakes in URLs that people write into a configuration. Its errors
// complete a sentence that begins with the key, and show no part of a URL, which may be a secret.
// [Cause] keeps the URLs of requests out of errors, too. It is a leaf.
package urls

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// OwnScheme begins the URIs of the router itself.
const OwnScheme = "metarouter:"

// SkillFile is the end of a skill's URI, behind its folder.
const SkillFile = "/SKILL.md"

// IsOwn reports whether a URI, or a URI template, is not a server's to give.
func IsOwn(uri string) bool {
	return len(uri) >= len(OwnScheme) && strings.EqualFold(uri[:len(OwnScheme)], OwnScheme)
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// LeadsElsewhere reports whether a valid URL, or "", leads to another machine.
func LeadsElsewhere(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && !IsLoopback(u.Hostname())
}

// Web checks a whole URL of http or https.
func Web(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New(`must be a whole URL; write "https://host/path"`)
	}
	return nil
}

// Document checks the URL of a client ID metadata document.
func Document(s string) error {
	if err := Web(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || strings.Trim(u.Path, "/") == "" {
		return errors.New(`must be an https URL with a path, since issuers accept no other; write "https://host/client.json"`)
	}
	return nil
}

// Resource checks the identifier of a resource.
func Resource(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme == "" || u.Fragment != "" {
		return errors.New(`must be a whole URI without a fragment, or false to send no resource parameter; write "https://host/path"`)
	}
	return nil
}

// Issuer checks the identifier of an issuer, which is not normalized: tokens must have the same
// bytes.
func Issuer(s string) error {
	if s == "" {
		return errors.New(`must be the issuer's URL; write it like "https://id.example.com", as its tokens name it in "iss"`)
	}
	if err := secure(s, `"https://id.example.com"`); err != nil {
		return err
	}
	switch {
	case strings.Contains(s, "?"):
		return errors.New(`must be the issuer's URL without a query; write it as its tokens name it in "iss"`)
	case strings.Contains(s, "/.well-known/"):
		return errors.New(`must be the issuer itself, not the address of its metadata; write it without "/.well-known/…", as its tokens name it in "iss"`)
	}
	return nil
}

// Keys checks the URL of the keys of an issuer.
func Keys(s string) error { return secure(s, `"https://id.example.com/keys"`) }

// secure checks a whole URL that others on the way can't answer: of https, or of this machine.
func secure(s, example string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "# \\"):
		return fmt.Errorf("must be a whole URL without a user, a fragment and spaces; write it like %s", example)
	case u.Scheme == "http" && !IsLoopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf(`must begin with "https:", since others could change what a host elsewhere says without TLS; write it like %s`, example)
	}
	return nil
}

// prefix matches the paths that the router may have: without escapes, so that it is the same in each
// request.
const prefix = `^(/[A-Za-z0-9_~.-]*[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)*$`

// Public reads a URL by which browsers and clients elsewhere reach the router. A slash at its end is
// removed.
func Public(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(s, "?#") {
		return "", errors.New(`must be a whole URL without a user and a query; write "https://router.example"`)
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	switch {
	case strings.HasSuffix(path, "/mcp"), strings.Contains(path+"/", "/mcp/p/"), strings.Contains(path+"/", "/mcp/s/"):
		return "", errors.New(`must be the address of the router, not of one of its MCP paths; write it without "/mcp", like "https://router.example"`)
	case !regexp.MustCompile(prefix).MatchString(path):
		return "", errors.New(`must have a path of letters, digits and . _ ~ - between single slashes; write it like "https://router.example/tools"`)
	}
	return u.Scheme + "://" + u.Host + path, nil
}

// Cause returns the cause of a failed HTTP request without its URL, which may have secrets. Other
// errors, and nil, are returned as they are.
func Cause(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

const maxNATS = 32 // URLs of one cluster

// NATS returns the URLs of NATS servers of a text with commas between them. No error shows a part of a URL
// that may be secret.
func NATS(text string) (all []string, err error) {
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		u, err := url.Parse(s)
		switch {
		case err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
			return nil, errors.New(`must be a whole URL of NATS that begins with nats:, tls:, ws: or wss:; write it like "nats://hub:4222"`)
		case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#") || strings.Trim(u.Path, "/") != "" && !isWebSocket(s):
			return nil, errors.New(`must be a URL without a path, a query and a fragment; write it like "nats://hub:4222"`)
		case !isPort(u.Port()):
			return nil, errors.New(`must have a port from 1 to 65535, or none; write it like "nats://hub:4222"`)
		}
		all = append(all, s)
	}
	return all, nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
}

func isWebSocket(u string) bool { return strings.HasPrefix(strings.ToLower(u), "ws") }

// CheckNATS says why valid URLs of NATS servers do not fit together.
func CheckNATS(all []string) error {
	switch {
	case len(all) == 0:
		return errors.New(`names no NATS server; write ["nats://hub:4222"], with the address of yours`)
	case len(all) > maxNATS:
		return fmt.Errorf("must have at most %d URLs; write those of a few servers, which know the others", maxNATS)
	case slices.ContainsFunc(all, func(u string) bool { return isWebSocket(u) != isWebSocket(all[0]) && !strings.Contains(u+all[0], "${") }):
		return errors.New("must be either URLs with ws: and wss:, or with nats: and tls:; write those of one kind")
	}
	return nil
}

// NATSSecrets returns the passwords and tokens in URLs, as written and as meant. A URL that can't be read is a secret itself.
func NATSSecrets(all []string) (secrets []string) {
	for _, s := range all {
		u, err := url.Parse(s)
		if err != nil {
			secrets = append(secrets, s)
		} else if u.User != nil {
			written := u.User.String()
			written = written[strings.IndexByte(written, ':')+1:] // NATS takes a user without a password for a token
			meant, _ := url.PathUnescape(written)
			secrets = append(secrets, meant, written)
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// UnencryptedNATS returns the host of a NATS server on another machine to which a connection is not
// encrypted, and the URL to write for one that is. ok is false for other URLs.
func UnencryptedNATS(s string) (host, better string, ok bool) {
	u, err := url.Parse(s)
	if err != nil || strings.Contains(u.Host, "${") || IsLoopback(u.Hostname()) {
		return "", "", false
	}
	scheme, ok := map[string]string{"nats": "tls", "ws": "wss"}[u.Scheme]
	return u.Host, scheme + "://" + u.Host, ok
}
