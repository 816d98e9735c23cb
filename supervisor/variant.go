package supervisor

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A Place is where a client's process runs, as [session.Caller] has it: the client gets its variants of servers.
type Place interface {
	// Variant returns the server of this name as the client has it, nil if that is the server's own entry.
	Variant(server string) *Variant
}

// A Variant is the entry of a server with other values of variables or another folder than the router has. Clients with the
// same variant share a process.
type Variant struct {
	Entry  config.Server
	Reason string // why it has a process of its own, such as "clients differ in GITHUB_TOKEN"
}

// key tells the processes of variants of one server apart.
func (v *Variant) key() string {
	return v.Entry.Hash() + "\x00" + strings.Join(v.Entry.InheritEnv, "\x00")
}

// variantOf returns the variant of the server for a client; from may be nil.
func variantOf(from session.Client, server string) *Variant {
	who, _ := session.CallerOf(from)
	if place, ok := who.Place.(Place); ok {
		return place.Variant(server)
	}
	return nil
}
