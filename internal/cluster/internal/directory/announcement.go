package directory

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

// Bounds of the announcement of a router. Servers beyond them are left out.
const (
	MaxServers     = 500
	MaxTools       = 100_000  // of all servers
	MaxDefinitions = 16 << 20 // bytes of one server

	maxAnnouncement = 256 << 10 // bytes
	maxList         = 240 << 10 // bytes of the servers in it
	maxText         = 64        // bytes of a version or token
	maxServerName   = 128
	maxService      = 256
)

// Protocol is the version of the protocol between nodes.
const Protocol = 2

// signed comes before the bytes that a node signs, so that the signature is worth nothing for
// another purpose.
const signed = "metarouter announcement 2\n"

// An Announcement is a router and the servers that it shares. In the bucket it is the signature in
// base64, a line end, and JSON.
type Announcement struct {
	Protocol int      `json:"protocol"`
	Cluster  string   `json:"cluster"`
	Key      string   `json:"key"`      // the public key of the node
	Router   string   `json:"router"`   // the token that streams to the router begin with
	Instance string   `json:"instance"` // of its NATS service, for pings
	Node     string   `json:"node"`     // the name that the node gives itself
	Version  string   `json:"version"`
	Revision uint64   `json:"revision"`        // higher in each later announcement of the router
	Since    int64    `json:"since,omitempty"` // when it began to share, in Unix milliseconds
	Leaving  bool     `json:"leaving,omitempty"`
	Servers  []Server `json:"servers,omitempty"`
}

// A Server is one that a node shares. Servers can be compared.
type Server struct {
	Name        string            `json:"name"`
	Service     string            `json:"service,omitempty"`
	Terms       clusternode.Terms `json:"terms"`
	Tools       int               `json:"tools"` // how many it has
	Definitions Reference         `json:"definitions"`
}

// A Reference is where definitions are in the bucket.
type Reference struct {
	Sum    string `json:"sum"`    // SHA-256, hexadecimal
	Size   int    `json:"size"`   // bytes
	Chunks int    `json:"chunks"` // values of the bucket
}

func (r Reference) valid() bool {
	sum, err := hex.DecodeString(r.Sum)
	return err == nil && len(sum) == sha256.Size && r.Size > 0 && r.Size <= MaxDefinitions && r.Chunks > 0 && r.Chunks <= maxChunks
}

// IsServerName reports whether a server with the name can be shared. An "@" divides it from the name
// of its node, and a ":" from the name of a tool: a name with a ":" would let its tools in by rules
// for tools of another server. People see the name, so that it must be printable.
func IsServerName(name string) bool {
	return name != "" && isText(name, maxServerName) && !strings.ContainsAny(name, "@:")
}

// IsNodeName reports whether a text is a valid name of a node.
func IsNodeName(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isText reports whether a text is short and can be printed.
func isText(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// encode returns the value of the bucket.
func (a *Announcement) encode(sign func([]byte) ([]byte, error)) ([]byte, error) {
	text, _ := json.Marshal(a) // of strings and numbers
	signature, err := sign(append([]byte(signed), text...))
	if err != nil {
		return nil, fmt.Errorf("sign the announcement: %w", err)
	}
	return append(base64.StdEncoding.AppendEncode(nil, signature), append([]byte("\n"), text...)...), nil
}

// Decode reads the value that the bucket has for a router. It checks the signature of a node that is
// trusted, and reads no servers of another one.
func Decode(cluster, key, router string, value []byte, trusted bool) (*Announcement, error) {
	first, text, found := bytes.Cut(value, []byte("\n"))
	if !found || len(value) > maxAnnouncement {
		return nil, errors.New("it is no announcement, or is too large")
	}
	a := &Announcement{}
	if trusted {
		signature, err := base64.StdEncoding.AppendDecode(nil, first)
		if err != nil {
			return nil, fmt.Errorf("decode the signature: %w", err)
		}
		public, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(key))
		if err != nil || !ed25519.Verify(public, append([]byte(signed), text...), signature) {
			return nil, errors.New("its signature is not of its node")
		}
	}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("decode an announcement: %w", err)
	}
	switch {
	case a.Protocol != Protocol:
		return nil, fmt.Errorf("it has version %d, and only version %d is read; run the same major version of metarouter on all nodes", a.Protocol, Protocol)
	case a.Cluster != cluster || a.Key != key || a.Router != router:
		return nil, errors.New("it is for another cluster, node or router")
	case !IsNodeName(a.Node) || !isText(a.Version, maxText) || a.Instance == "" || !isText(a.Instance, maxText) || strings.ContainsAny(a.Instance, " .*>"):
		return nil, errors.New("it has no valid name, version or instance")
	}
	if !trusted {
		a.Servers = nil
	}
	a.Servers, _ = bound(a.Servers)
	return a, nil
}

// bound returns the servers that are valid and keep to the bounds, and the names of the others.
func bound(servers []Server) (kept []Server, leftOut []string) {
	seen := map[string]bool{}
	tools, size := 0, 0
	for _, s := range servers {
		s.Terms = boundTerms(s.Terms)
		text, _ := json.Marshal(s) // of strings and numbers
		if !IsServerName(s.Name) || len(s.Service) > maxService || seen[s.Name] || !s.Definitions.valid() ||
			s.Tools < 0 || s.Tools > MaxTools-tools || len(kept) == MaxServers || size+len(text) >= maxList {
			leftOut = append(leftOut, s.Name)
			continue
		}
		seen[s.Name] = true
		tools, size = tools+s.Tools, size+len(text)+1
		kept = append(kept, s)
	}
	return kept, leftOut
}

// boundTerms returns terms without values that mean nothing here.
func boundTerms(t clusternode.Terms) clusternode.Terms {
	t.Timeout, t.MaxConcurrent = max(0, t.Timeout), max(0, t.MaxConcurrent)
	if !slices.Contains([]string{"on", "warn", "off"}, t.Validate) {
		t.Validate = "on"
	}
	if !slices.Contains([]string{"hints", "never", "always"}, t.Retry) {
		t.Retry = "hints"
	}
	return t
}
