package directory

import (
	"bytes"
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

// Definitions describe a server and its tools, prompts and resources.
type Definitions struct {
	Info      session.Info `json:"info"` // of a remote server
	Tools     Items        `json:"tools,omitempty"`
	Prompts   Items        `json:"prompts,omitempty"`
	Resources Items        `json:"resources,omitempty"`
	Templates Items        `json:"templates,omitempty"`
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

// unpack expands definitions, and compares their hash with the reference.
func (p packed) unpack() (*Definitions, error) {
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
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decode the definitions: %w", err)
	}
	d.Info.PID, d.Info.Remote = 0, true
	return d, nil
}
