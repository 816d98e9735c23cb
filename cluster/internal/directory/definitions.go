package directory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Bounds of the pieces of definitions, before they are compressed.
const (
	minPiece = 4 << 10
	maxPiece = 512 << 10
)

// Definitions describe a server and its tools, prompts and resources.
type Definitions struct {
	Info      Info  `json:"info"`
	Tools     Items `json:"tools,omitempty"`
	Prompts   Items `json:"prompts,omitempty"`
	Resources Items `json:"resources,omitempty"`
	Templates Items `json:"templates,omitempty"`
}

// Items are the definitions of one kind.
type Items []json.RawMessage

// UnmarshalJSON reads at most [MaxTools] items: short ones take much more memory than their bytes.
func (i *Items) UnmarshalJSON(text []byte) error {
	*i = nil
	if string(text) == "null" {
		return nil
	}
	text = bytes.Clone(text) // the caller uses the memory again
	err := wire.Elements(text, func(value []byte) bool {
		*i = append(*i, value)
		return len(*i) <= MaxTools
	})
	if err == nil && len(*i) > MaxTools {
		err = fmt.Errorf("it has more than %d items of one kind", MaxTools)
	}
	return err
}

// Info is the part of a [session.Info] that other nodes may know.
type Info struct {
	ProtocolVersion string          `json:"protocol_version"`
	Name            string          `json:"name"`
	Version         string          `json:"version"`
	Title           string          `json:"title,omitempty"`
	Instructions    string          `json:"instructions,omitempty"`
	Capabilities    json.RawMessage `json:"capabilities,omitempty"`
}

func InfoOf(i session.Info) Info {
	return Info{i.ProtocolVersion, i.Name, i.Version, i.Title, i.Instructions, i.Capabilities}
}

// Session returns the info of a session with the server from another node.
func (i Info) Session() session.Info {
	return session.Info{
		ProtocolVersion: i.ProtocolVersion, Name: i.Name, Version: i.Version, Title: i.Title,
		Instructions: i.Instructions, Capabilities: i.Capabilities, Remote: true,
	}
}

// A stored is definitions in pieces, as they are kept in memory and in the bucket.
type stored struct {
	Reference
	pieces [][]byte // compressed
}

// store divides definitions into pieces of at most piece bytes.
func store(d *Definitions, piece int) (stored, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return stored{}, fmt.Errorf("encode the definitions: %w", err)
	}
	sum := sha256.Sum256(text)
	s := stored{Reference: Reference{hex.EncodeToString(sum[:]), len(text), piece}}
	for at := 0; at < len(text); at += piece {
		s.pieces = append(s.pieces, compress(text[at:min(at+piece, len(text))]))
	}
	return s, nil
}

func (r Reference) count() int { return (r.Size + r.Piece - 1) / r.Piece }

// key returns the key of a piece in the bucket. Pieces of other lengths have other keys.
func (r Reference) key(i int) string { return fmt.Sprintf("%s.%d.%d", r.Sum, r.Piece, i) }

// bytes is how much memory the pieces take.
func (s stored) bytes() (n int) {
	for _, p := range s.pieces {
		n += len(p)
	}
	return n
}

// load puts the pieces together, and compares their hash with the reference.
func (s stored) load() (*Definitions, error) {
	text := make([]byte, 0, s.Size)
	for _, p := range s.pieces {
		part, err := expand(p, min(s.Piece, s.Size-len(text)))
		if err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != s.Sum {
		return nil, errors.New("the definitions are not those that were announced: their hash differs")
	}
	d := &Definitions{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decode the definitions: %w", err)
	}
	return d, nil
}
