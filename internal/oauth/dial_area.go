package oauth

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// An area is how private an address is. A request may go to areas up to the area of the
// server for which it is made, so a greater area includes the lesser ones.
type area int

const (
	public   area = iota
	private       // RFC 1918, RFC 4193 (fc00::/7), shared by a provider's customers (100.64.0.0/10), or of a test network (198.18.0.0/15)
	loopback      // of this machine
	nowhere       // no server has such an address: link-local, multicast, reserved, or of a cloud's metadata service
)

func (a area) String() string {
	return [...]string{"public", "in a private network", "of this machine", "link-local, reserved or of a cloud's metadata service"}[a]
}

// areas are the addresses of each area: the first that has an address counts, and nowhere if none does.
var areas = []struct {
	area
	within []netip.Prefix
}{
	// at which a cloud gives credentials to its machines, outside of the link-local ones
	{nowhere, prefixes("168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::254/128", "fd20:ce::254/128")},
	{loopback, prefixes("127.0.0.0/8", "::1/128")},
	{private, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "100.64.0.0/10", "198.18.0.0/15")},
	{nowhere, prefixes(
		"0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "3fff::/20")},
	{public, prefixes("0.0.0.0/0", "2000::/3")},
}

var nat64, sixToFour = prefixes("64:ff9b::/96", "64:ff9b:1::/48"), prefixes("2002::/16")

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, p := range all {
		parsed[i] = netip.MustParsePrefix(p)
	}
	return parsed
}

// areaOf returns the area of an address. An IPv6 address that stands for an IPv4 address has the
// area of that one.
func areaOf(ip netip.Addr) area {
	ip = ip.Unmap().WithZone("")
	has := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch bytes := ip.As16(); {
	case slices.ContainsFunc(nat64, has):
		return areaOf(netip.AddrFrom4([4]byte(bytes[12:])))
	case slices.ContainsFunc(sixToFour, has):
		return areaOf(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	for _, a := range areas {
		if slices.ContainsFunc(a.within, has) {
			return a.area
		}
	}
	return nowhere
}

// literalArea returns the area of a host that is an IP address or "localhost". ok is false for
// other names.
func literalArea(host string) (a area, ok bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" {
		return loopback, true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return 0, false
	}
	return areaOf(ip), true
}

// A blockedError is a request that is not sent, or a redirect that is not followed.
type blockedError struct{ text string }

func (e *blockedError) Error() string { return e.text }

func blocked(format string, args ...any) error {
	return &blockedError{fmt.Sprintf(format, args...)}
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool { return originOf(a) == originOf(b) }

// originOf returns the scheme, host and port of a URL, in one spelling.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	scheme := strings.ToLower(u.Scheme)
	if port := u.Port(); scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return scheme + "://" + host
}

// Origin returns the part of a URL that says who answers there: the scheme, the host and the port.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return originOf(u)
}
