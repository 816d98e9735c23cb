package embeddings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const (
	maxFile   = 512 << 20              // bytes of a stored file
	maxOthers = 256 << 20              // bytes of vectors up to which those of other texts are kept
	maxFiles  = 4                      // files, one for each model; the latest stay
	batchWait = 100 * time.Millisecond // between two requests
	magic     = "mrvec1\n\x00"
)

type key [16]byte

// A Store has the vectors of texts by one model. Its methods must be called by one goroutine at
// a time.
type Store struct {
	client  *Client
	path    string // "" keeps nothing
	vectors map[key]vectors.Vector
	changed bool
}

// Open returns the store of the client's model in the folder; "" keeps nothing on disk. A file
// that is damaged counts as absent.
func Open(c *Client, folder string) *Store {
	s := &Store{client: c, vectors: make(map[key]vectors.Vector)}
	if folder != "" {
		sum := sha256.Sum256([]byte(c.model))
		s.path = filepath.Join(folder, hex.EncodeToString(sum[:8])+".bin")
		data, _ := safefile.Read(s.path, maxFile)
		if all, ok := decode(data); ok {
			s.vectors = all
		}
	}
	return s
}

func (s *Store) key(text string) (k key) {
	sum := sha256.Sum256([]byte(s.client.model + "\x00" + text))
	copy(k[:], sum[:])
	return k
}

// Vector returns the vector of a text, nil if the store lacks it.
func (s *Store) Vector(text string) vectors.Vector { return s.vectors[s.key(text)] }

// Fill asks the model for the vectors of texts that the store lacks, and writes the file if any
// was made, also after an error. The vectors of other texts stay while there is room: their
// servers may not be listed yet.
func (s *Store) Fill(ctx context.Context, texts []string) error {
	wanted := make(map[key]vectors.Vector, len(texts))
	var missing []string
	for _, text := range texts {
		k := s.key(text)
		if _, again := wanted[k]; again {
			continue
		}
		if wanted[k] = s.vectors[k]; wanted[k] == nil {
			missing = append(missing, text)
		}
	}
	s.changed = s.changed || len(missing) > 0
	err := s.ask(ctx, missing, wanted)
	size := 0
	for k, v := range wanted {
		if size += 4 * len(v); v == nil {
			delete(wanted, k)
		}
	}
	for k, v := range s.vectors {
		if _, known := wanted[k]; !known && size < maxOthers {
			wanted[k] = v
			size += 4 * len(v)
		}
	}
	s.vectors = wanted
	return errors.Join(err, s.save())
}

// ask asks for the missing vectors, a batch at a time and not too fast.
func (s *Store) ask(ctx context.Context, missing []string, to map[key]vectors.Vector) error {
	for i := 0; i < len(missing); i += maxBatch {
		if i > 0 {
			select {
			case <-time.After(batchWait):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		batch := missing[i:min(i+maxBatch, len(missing))]
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		all, err := s.client.Embed(limited, batch)
		cancel()
		if err != nil {
			return err
		}
		for j, text := range batch {
			to[s.key(text)] = all[j]
		}
	}
	return nil
}

// save writes the file, and removes those of models that were not used for long.
func (s *Store) save() error {
	if s.path == "" || !s.changed {
		return nil
	}
	folder := filepath.Dir(s.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keep the vectors of tools: %w", err)
	}
	if err := atomicfile.Write(s.path, encode(s.vectors), false); err != nil {
		return fmt.Errorf("keep the vectors of tools: %w", err)
	}
	s.changed = false
	entries, _ := os.ReadDir(folder)
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".bin" {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range files[min(len(files), maxFiles):] {
		os.Remove(filepath.Join(folder, old.Name()))
	}
	return nil
}

// encode returns the vectors as a file: the magic, how many numbers a vector has, then each key
// with its vector. Vectors of another length than the first one's are left out.
func encode(all map[key]vectors.Vector) []byte {
	keys := make([]key, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return bytes.Compare(a[:], b[:]) })
	dim := 0
	if len(keys) > 0 {
		dim = len(all[keys[0]])
	}
	data := binary.LittleEndian.AppendUint32([]byte(magic), uint32(dim))
	for _, k := range keys {
		if len(all[k]) != dim {
			continue
		}
		data = append(data, k[:]...)
		for _, x := range all[k] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	return data
}

func decode(data []byte) (map[key]vectors.Vector, bool) {
	all := make(map[key]vectors.Vector)
	data, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(data) < 4 {
		return nil, false
	}
	dim := int(binary.LittleEndian.Uint32(data))
	data = data[4:]
	size := len(key{}) + 4*dim
	if dim > maxDim || dim == 0 && len(data) > 0 || len(data)%size != 0 {
		return nil, false
	}
	for ; len(data) > 0; data = data[size:] {
		v := make(vectors.Vector, dim)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[len(key{})+4*i:]))
		}
		if !normalize(v) {
			return nil, false
		}
		all[key(data[:len(key{})])] = v
	}
	return all, true
}
