package directory

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

// Bounds of the announcement of a node. Servers beyond them are left out.
const (
	MaxServers     = 1000
	MaxTools       = 100_000
	MaxDefinitions = 64 << 20 // bytes
	MaxNodes       = 1000

	maxAnnouncement = 1 << 20 // bytes, compressed
	maxExpanded     = 4 << 20 // bytes
	maxName         = 128     // bytes of a server's name
	maxService      = 256     // bytes of its service
)

// An announcement on the wire is two bytes, compressed JSON, and the signature of all bytes before
// it. The first byte keeps its signature apart from the signatures of frames, and of nonces of
// NATS, which are text.
const (
	mark  = 0x02
	major = 1
	minor = 0
)

// An Announcement has the servers that a node shares.
type Announcement struct {
	Cluster  string   `json:"cluster"`
	Key      string   `json:"key"`
	Node     string   `json:"node"` // the name that it gives itself
	Version  string   `json:"version"`
	Time     int64    `json:"time"`     // when it was made: Unix milliseconds
	Revision string   `json:"revision"` // identifies Servers
	Servers  []Server `json:"servers"`
}

// IsName reports whether a server with the name can be shared. An "@" divides it from the name of
// its node, and a ":" from the name of a tool: a name with a ":" would let its tools in by rules
// for tools of another server. People see the name, so that it must be printable.
func IsName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '@' || r == ':' || !unicode.IsPrint(r) })
}

// A Server is one that a node shares.
type Server struct {
	Name        string            `json:"name"`
	Definitions Reference         `json:"definitions"`
	Tools       int               `json:"tools"` // how many it has
	Terms       clusternode.Terms `json:"terms"`
	Service     string            `json:"service,omitempty"`
}

// A Reference is where definitions are.
type Reference struct {
	Sum   string `json:"sum"` // SHA-256, hexadecimal
	Size  int    `json:"size"`
	Piece int    `json:"piece"` // bytes of each piece but the last
}

// valid reports whether a reference can be one.
func (r Reference) valid() bool {
	sum, err := hex.DecodeString(r.Sum)
	return err == nil && len(sum) == sha256.Size && r.Size > 0 && r.Size <= MaxDefinitions &&
		r.Piece >= minPiece && r.Piece <= maxPiece
}

// revision identifies servers.
func revision(servers []Server) string {
	if len(servers) == 0 {
		return ""
	}
	text, _ := json.Marshal(servers) // of strings and numbers
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// encode returns the signed bytes of an announcement.
func (a *Announcement) encode(s frame.Signer) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the announcement: %w", err)
	}
	data := append([]byte{mark, major<<4 | minor}, compress(text)...)
	signature, err := s.Sign(data)
	if err != nil {
		return nil, fmt.Errorf("sign the announcement: %w", err)
	}
	if data = append(data, signature...); len(data) > maxAnnouncement {
		return nil, fmt.Errorf("the announcement has %d bytes, at most %d are allowed; share fewer servers", len(data), maxAnnouncement)
	}
	return data, nil
}

// decode reads an announcement, and checks that the node with the key has signed it. Servers that
// break the bounds are left out of it; leftOut is how many.
func decode(key string, data []byte) (a *Announcement, leftOut int, err error) {
	at := len(data) - ed25519.SignatureSize
	switch {
	case at < 2 || data[0] != mark:
		return nil, 0, errors.New("it is no announcement")
	case len(data) > maxAnnouncement:
		return nil, 0, errors.New("it is too large")
	case data[1]>>4 != major:
		return nil, 0, fmt.Errorf("it has version %d, and only version %d is read; run the same major version of metarouter on all nodes", data[1]>>4, major)
	}
	if err := frame.Verify(key, data[:at], data[at:]); err != nil {
		return nil, 0, err
	}
	text, err := expand(data[2:at], maxExpanded)
	if err != nil {
		return nil, 0, err
	}
	a = &Announcement{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, 0, fmt.Errorf("decode an announcement: %w", err)
	}
	if a.Key != key {
		return nil, 0, errors.New("it is that of another node")
	}
	return a, a.bound(), nil
}

// bound leaves out servers that break the bounds, and returns how many.
func (a *Announcement) bound() (leftOut int) {
	var kept []Server
	seen := map[string]bool{}
	size, tools := 0, 0
	for _, s := range a.Servers {
		more, offered := min(max(0, s.Definitions.Size), MaxDefinitions+1), min(max(0, s.Tools), MaxTools+1) // sums can't overflow
		size, tools = size+more, tools+offered
		if !IsName(s.Name) || len(s.Service) > maxService || seen[s.Name] || !s.Definitions.valid() || s.Tools < 0 || s.Tools > MaxTools ||
			len(kept) == MaxServers || size > MaxDefinitions || tools > MaxTools {
			size, tools = size-more, tools-offered
			leftOut++
			continue
		}
		seen[s.Name] = true
		s.Terms = boundTerms(s.Terms)
		kept = append(kept, s)
	}
	a.Servers = kept
	return leftOut
}

// boundTerms returns terms without values that mean nothing here.
func boundTerms(t clusternode.Terms) clusternode.Terms {
	t.Timeout, t.MaxConcurrent = max(0, t.Timeout), max(0, t.MaxConcurrent)
	switch t.Validate {
	case "on", "warn", "off":
	default:
		t.Validate = "on"
	}
	switch t.Retry {
	case "hints", "never", "always":
	default:
		t.Retry = "hints"
	}
	return t
}

func compress(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return b.Bytes()
}

// expand reverses compress. More bytes than limit are an error.
func expand(data []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	if len(text) > limit {
		return nil, fmt.Errorf("expanded, it has more than %d bytes", limit)
	}
	return text, nil
}
