package directory

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxChunk  = 512 << 10 // bytes of a value of the bucket
	minChunk  = 4 << 10
	maxChunks = MaxDefinitions/minChunk + 16
)

// Definitions describe a server and its tools, prompts and resources, each a JSON array or nil.
type Definitions = definitions[json.RawMessage]

type definitions[List any] struct {
	Info      session.Info `json:"info"` // of a remote server
	Tools     List         `json:"tools,omitempty"`
	Prompts   List         `json:"prompts,omitempty"`
	Resources List         `json:"resources,omitempty"`
	Templates List         `json:"templates,omitempty"`
	Skills    List         `json:"skills,omitempty"`
}

// check returns an error for more than limit items, or what is no array.
func check(array json.RawMessage, limit int) error {
	if array == nil {
		return nil
	}
	n := 0
	err := wire.Elements(array, func([]byte) bool { n++; return n <= limit })
	if err == nil && n > limit {
		err = fmt.Errorf("more than %d items of one kind", limit)
	}
	return err
}

// A packed is definitions as the bucket has them: compressed.
type packed struct {
	Reference
	data []byte
	put  time.Time // when it was put; zero if it is to be put
}

// pack compresses the definitions of a server, for values of at most chunk bytes.
func pack(o clusternode.Offer, chunk int) (*packed, error) {
	o.Info.PID = 0 // it is of this machine
	text, err := json.Marshal(definitions[[]json.RawMessage]{o.Info, o.Tools, o.Prompts, o.Resources, o.Templates, o.Skills})
	if err != nil {
		return nil, fmt.Errorf("encode the definitions: %w", err)
	}
	if len(text) > MaxDefinitions {
		return nil, fmt.Errorf("its definitions have %d bytes; at most %d MiB are shared", len(text), MaxDefinitions>>20)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return &packed{Reference: Reference{sumOf(text), len(text), (b.Len() + chunk - 1) / chunk}, data: b.Bytes()}, nil
}

func sumOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// chunk returns a value of the bucket, counted from 0.
func (p *packed) chunk(i int) []byte {
	size := (len(p.data) + p.Chunks - 1) / p.Chunks
	return p.data[min(i*size, len(p.data)):min((i+1)*size, len(p.data))]
}

// unpack expands definitions of a server with so many tools, and compares their hash with the reference.
func (p *packed) unpack(tools int) (*Definitions, error) {
	var text []byte
	r, err := gzip.NewReader(bytes.NewReader(p.data))
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(r, int64(p.Size)+1))
	}
	if err != nil {
		return nil, fmt.Errorf("expand the definitions: %w", err)
	}
	if len(text) != p.Size || sumOf(text) != p.Sum {
		return nil, errors.New("the definitions are not those that were announced: their hash differs")
	}
	d := &Definitions{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decode the definitions: %w", err)
	}
	if err := cmp.Or(check(d.Tools, tools), check(d.Prompts, MaxTools), check(d.Resources, MaxTools), check(d.Templates, MaxTools), check(d.Skills, MaxTools)); err != nil {
		return nil, fmt.Errorf("the definitions are not those that were announced: %w", err)
	}
	d.Info.PID, d.Info.Remote = 0, true
	return d, nil
}
