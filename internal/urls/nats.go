package urls

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

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

// NATSSecrets returns the passwords and tokens in valid URLs.
func NATSSecrets(all []string) (secrets []string) {
	for _, s := range all {
		u, err := url.Parse(s)
		if err != nil {
			continue
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		} else if token := u.User.Username(); token != "" {
			secrets = append(secrets, token) // NATS takes a user without a password for a token
		}
	}
	return secrets
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
