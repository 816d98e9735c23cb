package registry

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func uris(server string, all ...string) (o Offer) {
	for _, uri := range all {
		o.Resources = append(o.Resources, resource(server, uri, uri))
	}
	return o
}

// owners returns the owners of URIs, as "uri=server".
func owners(s *Snapshot, uris ...string) string {
	var all []string
	for _, uri := range uris {
		all = append(all, uri+"="+s.Claims()[uri].Server)
	}
	return strings.Join(all, " ")
}

// A URI belongs to the server that had it first, whatever happens to that server, until the
// configuration does not have it.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		offer(t, r, "z", uris("z", "x"))
		expect.Equal(t, owners(r.Snapshot(), "x"), "x=", "without a configuration")
		check := func(step, want string) {
			t.Helper()
			expect.Equal(t, owners(r.Snapshot(), "x", "y"), want, "%s", step)
		}
		r.Remove("z")
		r.Configure([]string{"first", "late"}, nil)
		// At the first start, the order of the file counts, not who answers sooner.
		time.Sleep(time.Second)
		offer(t, r, "late", uris("late", "x"))
		check("only late has answered", "x=late y=")
		offer(t, r, "first", uris("first", "x"))
		check("both have answered", "x=first y=")

		r.Configure([]string{"a-new", "first", "late"}, nil)
		offer(t, r, "a-new", uris("a-new", "x", "y"))
		check("a new server, first by name and place", "x=first y=a-new")
		time.Sleep(time.Second)
		offer(t, r, "first", uris("first", "x", "y"))
		check("an old server lists more", "x=first y=a-new")
		r.Remove("first") // it is disabled
		offer(t, r, "late", uris("late", "x", "z"))
		check("disabled", "x=first y=a-new")
		offer(t, r, "first", Offer{})
		check("it lists nothing", "x=first y=a-new")
		version := r.Snapshot().Version
		r.Configure([]string{"late", "first", "a-new"}, nil)
		check("another order", "x=first y=a-new")
		expect.Equal(t, r.Snapshot().Version, version, "nothing has changed, but the snapshot has")
		r.Configure([]string{"late", "a-new"}, nil)
		check("removed", "x=late y=a-new")
	})
}

// The claims of an earlier run count more than those of servers that answer first now.
func TestStoredClaims(t *testing.T) {
	r := New()
	r.Configure([]string{"taker", "owner"}, Claims{"x": {"owner", 1}, "y": {"gone", 2}})
	offer(t, r, "taker", uris("taker", "x", "y"))
	expect.Equal(t, owners(r.Snapshot(), "x", "y"), "x=owner y=taker")
}

// The claims are bounded, and those of one server, which keeps the claims to URIs that it lists: a server with other URIs
// each time leaves room for others.
func TestClaimsAreBounded(t *testing.T) {
	r := New()
	servers := []string{"a", "b", "c", "d", "e"}
	r.Configure(servers, nil)
	many := func(scheme string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(scheme, "://", i))
		}
		return all
	}
	long := strings.Repeat("x", maxClaimed+1)
	offer(t, r, "a", uris("a", append(many("a", maxOwn+10), long)...))
	expect.Equal(t, len(r.Snapshot().Claims()), maxOwn, "claims of one server")
	for i := range 4 {
		offer(t, r, "a", uris("a", append(many(fmt.Sprint("busy", i), maxOwn-10), "a://0")...))
	}
	offer(t, r, "b", uris("b", "a://0", "a://1"))
	expect.Equal(t, owners(r.Snapshot(), "a://0", "a://1", "busy3://0", "busy2://0"), "a://0=a a://1=b busy3://0=a busy2://0=", "of a busy server")
	offer(t, r, "c", uris("c", many("c", 30_000)...))
	offer(t, r, "c", uris("c", many("c", 25_000)...))
	expect.Equal(t, owners(r.Snapshot(), "c://29999"), "c://29999=c", "of a server that has room")
	for _, server := range servers {
		offer(t, r, server, uris(server, many(server, maxOwn)...))
	}
	expect.Equal(t, len(r.Snapshot().Claims()), maxClaims, "all claims")
}
