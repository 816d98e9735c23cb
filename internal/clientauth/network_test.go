package clientauth

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:80": "::/64", "pipe": "pipe", "name:80": "name",
	} {
		expect.Equal(t, Network(remote), want, "%s", remote)
	}
}
