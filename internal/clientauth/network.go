package clientauth

import (
	"context"
	"net"
	"net/netip"
)

// Network returns the text that identifies a client without a token: the IP address; of IPv6 the
// /64 prefix, since a client may have all its addresses. All clients behind a proxy have
// the proxy's address.
func Network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64)
	return prefix.String()
}

type networkKey struct{}

// From returns the context of a request that has come from a network, as [Network] names it.
func From(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, networkKey{}, network)
}

// NetworkOf returns where the request of the context has come from; "" if that is not known.
func NetworkOf(ctx context.Context) string {
	network, _ := ctx.Value(networkKey{}).(string)
	return network
}
