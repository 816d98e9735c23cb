package embeddings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
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
	batchWait = 100 * time.Millisecond // after a request
	magic     = "mrvec1\n\x00"
)

type key [16]byte

// A Store has the vectors of texts by one model. One goroutine at a time may call its methods.
type Store struct {
	model   Model
	path    string // "" keeps nothing
	vectors map[key]vectors.Vector
	changed bool // since the last attempt to save
}

// Open returns the store of the model in the folder; "" keeps nothing on disk. A file
// that is damaged counts as absent.
func Open(m Model, folder string) *Store {
	s := &Store{model: m, vectors: make(map[key]vectors.Vector)}
	if folder != "" {
		sum := sha256.Sum256([]byte(m.Name()))
		s.path = filepath.Join(folder, hex.EncodeToString(sum[:8])+".bin")
		data, _ := safefile.Read(s.path, maxFile)
		if all, ok := decode(data); ok {
			s.vectors = all
		}
	}
	return s
}

func (s *Store) key(text string) key {
	sum := sha256.Sum256([]byte(s.model.Name() + "\x00" + text))
	return key(sum[:])
}

// Fill asks the model for the vectors of texts that the store lacks. Those that were made before
// an error are kept. The vectors of other texts stay while there is room: their servers may not
// be listed yet.
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
	return err
}

// ask asks for the missing vectors, a batch at a time and not too fast.
func (s *Store) ask(ctx context.Context, missing []string, to map[key]vectors.Vector) error {
	wait := batchWait
	if IsBuiltin(s.model) {
		wait = 0
	}
	for batch := range slices.Chunk(missing, maxBatch) {
		if err := s.askFor(ctx, batch, to); err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// askFor asks for the vectors of a batch. If that fails and the API works, it asks for each half:
// some APIs take few texts at a time, or no long ones. A text that fails alone gets no vector.
func (s *Store) askFor(ctx context.Context, batch []string, to map[key]vectors.Vector) error {
	all, err := s.embed(ctx, batch)
	for i, v := range all {
		to[s.key(batch[i])] = v
		s.changed = true
	}
	if err == nil || s.Wake(ctx) != nil {
		return err
	}
	half := len(batch) / 2
	if half == 0 {
		return nil
	}
	if err := s.askFor(ctx, batch[:half], to); err != nil {
		return err
	}
	return s.askFor(ctx, batch[half:], to)
}

// Wake asks the model for the vector of a word. APIs such as Ollama load the model at a request,
// and give that up when a search leaves.
func (s *Store) Wake(ctx context.Context) error {
	_, err := s.embed(ctx, []string{"tool"})
	return err
}

func (s *Store) embed(ctx context.Context, texts []string) ([]vectors.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.model.Embed(ctx, texts)
}

// save writes the file, and removes those of models that were not used for long.
func (s *Store) save() error {
	if s.path == "" || !s.changed {
		return nil
	}
	s.changed = false // another attempt comes with other vectors
	folder := filepath.Dir(s.path)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = atomicfile.Write(s.path, encode(s.vectors), false)
	}
	if err != nil {
		return fmt.Errorf("keep the vectors of tools: %w", err)
	}
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
// with its vector. Vectors of another length than some other one are left out.
func encode(all map[key]vectors.Vector) []byte {
	dim := 0
	for _, v := range all {
		dim = len(v)
		break
	}
	data := binary.LittleEndian.AppendUint32([]byte(magic), uint32(dim))
	for k, v := range all {
		if len(v) == dim {
			data = append(data, k[:]...)
			data, _ = binary.Append(data, binary.LittleEndian, []float32(v)) // fails for other types only
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
		if _, err := binary.Decode(data[len(key{}):], binary.LittleEndian, []float32(v)); err != nil || !normalize(v) {
			return nil, false
		}
		all[key(data[:len(key{})])] = v
	}
	return all, true
}
