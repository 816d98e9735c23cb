package directory

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	maxChunk  = 512 << 10 // bytes of a value of the bucket
	minChunk  = 4 << 10
	maxChunks = MaxDefinitions/minChunk + 16
)

// Definitions describe a server and its tools, prompts and resources, each an array or nil.
type Definitions struct {
	Info      session.Info    `json:"info"` // of a remote server
	Tools     json.RawMessage `json:"tools,omitempty"`
	Prompts   json.RawMessage `json:"prompts,omitempty"`
	Resources json.RawMessage `json:"resources,omitempty"`
	Templates json.RawMessage `json:"templates,omitempty"`
}

// Array returns the items as a JSON array.
func Array(items []json.RawMessage) json.RawMessage {
	if len(items) == 0 {
		return nil
	}
	array := []byte("[")
	for i, item := range items {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, item...)
	}
	return append(array, ']')
}

// check returns an error for more than tools tools, or too many items of another kind.
func (d *Definitions) check(tools int) error {
	for i, array := range []json.RawMessage{d.Tools, d.Prompts, d.Resources, d.Templates} {
		limit, n := MaxTools, 0
		if i == 0 {
			limit = tools
		}
		if array == nil {
			continue
		}
		err := wire.Elements(array, func([]byte) bool { n++; return n <= limit })
		if err == nil && n > limit {
			err = fmt.Errorf("more than %d items of one kind", limit)
		}
		if err != nil {
			return fmt.Errorf("the definitions are not those that were announced: %w", err)
		}
	}
	return nil
}

// A packed is definitions as the bucket has them: compressed.
type packed struct {
	Reference
	data []byte
}

// pack compresses definitions, for values of at most chunk bytes.
func pack(d *Definitions, chunk int) (packed, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return packed{}, fmt.Errorf("encode the definitions: %w", err)
	}
	if len(text) > MaxDefinitions {
		return packed{}, fmt.Errorf("its definitions have %d bytes; at most %d MiB are shared", len(text), MaxDefinitions>>20)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	sum := sha256.Sum256(text)
	return packed{Reference{hex.EncodeToString(sum[:]), len(text), (b.Len() + chunk - 1) / chunk}, b.Bytes()}, nil
}

// chunk returns a value of the bucket, counted from 0.
func (p packed) chunk(i int) []byte {
	size := (len(p.data) + p.Chunks - 1) / p.Chunks
	return p.data[min(i*size, len(p.data)):min((i+1)*size, len(p.data))]
}

// readers has readers to use again: they are large.
var readers sync.Pool

// unpack expands definitions of a server with so many tools, and compares their hash with the reference.
func (p packed) unpack(tools int) (*Definitions, error) {
	r, _ := readers.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	defer readers.Put(r)
	if err := r.Reset(bytes.NewReader(p.data)); err != nil {
		return nil, fmt.Errorf("expand the definitions: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(p.Size)+1))
	if err != nil {
		return nil, fmt.Errorf("expand the definitions: %w", err)
	}
	if sum := sha256.Sum256(text); len(text) != p.Size || hex.EncodeToString(sum[:]) != p.Sum {
		return nil, errors.New("the definitions are not those that were announced: their hash differs")
	}
	d := &Definitions{}
	var bad error
	err = wire.Members(text, func(key string, value []byte) bool {
		switch key {
		case "info":
			bad = json.Unmarshal(value, &d.Info)
		case "tools":
			d.Tools = value
		case "prompts":
			d.Prompts = value
		case "resources":
			d.Resources = value
		case "templates":
			d.Templates = value
		}
		return true
	})
	if err = cmp.Or(err, bad); err != nil {
		return nil, fmt.Errorf("decode the definitions: %w", err)
	}
	d.Info.PID, d.Info.Remote = 0, true
	return d, d.check(tools)
}
