package embeddings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	maxFile   = 512 << 20              // bytes of a stored file
	maxStored = 256 << 20              // bytes of vectors, above which vectors of other texts are dropped
	maxFiles  = 4                      // files, one for each model; the latest stay
	maxTools  = 20_000                 // that get vectors
	maxBatch  = 32                     // texts of a request; TEI takes no more
	batchWait = 100 * time.Millisecond // after a request
)

// A Store has the vectors of texts by one model. One goroutine at a time may call its methods.
type Store struct {
	model   Model
	path    string                    // "" keeps nothing
	vectors map[string]encoder.Vector // by the hash of the text
	changed bool                      // since the last attempt to save
}

// Open returns the store of the model in the folder; "" keeps nothing on disk. A file
// that is damaged counts as absent.
func Open(m Model, folder string) *Store {
	s := &Store{model: m, vectors: make(map[string]encoder.Vector)}
	if folder != "" {
		s.path = filepath.Join(folder, hex.EncodeToString([]byte(hash(m.Name())))+".vectors")
		data, _ := safefile.ReadOwn(s.path, maxFile)
		if stored := decode(data); stored != nil {
			s.vectors = stored
			os.Chtimes(s.path, time.Now(), time.Now()) // it is in use: see save
		}
	}
	return s
}

func decode(data []byte) (all map[string]encoder.Vector) {
	if gob.NewDecoder(bytes.NewReader(data)).Decode(&all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(_ string, v encoder.Vector) bool { return !(math.Abs(float64(v.Dot(v))-1) < 0.01) })
	return all
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:16])
}

// Build returns the vectors of the tools, as [Store.Vectors] does.
func (s *Store) Build(ctx context.Context, tools []Tool) (*Set, error) {
	tools = tools[:min(len(tools), maxTools)]
	texts := make([]string, len(tools))
	for i, t := range tools {
		texts[i] = t.text
	}
	vectors, err := s.Vectors(ctx, texts)
	if vectors == nil {
		return nil, err
	}
	set, rows := &Set{Model: s.model, numbers: make(map[string]int, len(tools))}, []encoder.Vector(nil)
	for i, t := range tools {
		if v := vectors[i]; v != nil && (len(rows) == 0 || len(v) == set.dim) {
			set.numbers[t.id], set.dim = len(rows), len(v)
			rows = append(rows, v)
		}
	}
	set.matrix = encoder.NewMatrix(rows)
	return set, err
}

// Vectors returns the vectors of the texts, and has the model make the missing ones. It returns them with an error if
// they can't be saved. The vector of a text that the model can't read is nil.
func (s *Store) Vectors(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	failed, unsaved := s.fill(ctx, texts), s.save()
	if failed != nil {
		return nil, errors.Join(failed, unsaved)
	}
	all := make([]encoder.Vector, len(texts))
	for i, text := range texts {
		all[i] = s.vectors[hash(text)]
	}
	return all, unsaved
}

// fill asks the model for the missing vectors, in batches and not too fast. Vectors from before an
// error stay. The vectors of other texts stay while there is room: their servers may not be listed yet.
func (s *Store) fill(ctx context.Context, texts []string) error {
	wanted, missing := make(map[string]bool, len(texts)), []string(nil)
	for _, text := range texts {
		if k := hash(text); !wanted[k] {
			if wanted[k] = true; s.vectors[k] == nil {
				missing = append(missing, text)
			}
		}
	}
	size := 0
	for _, v := range s.vectors {
		size += 4 * len(v)
	}
	if size > maxStored {
		maps.DeleteFunc(s.vectors, func(k string, _ encoder.Vector) bool { return !wanted[k] })
	}
	for batch := range slices.Chunk(missing, maxBatch) {
		vectors, err := s.model.Embed(ctx, batch)
		for i, v := range vectors {
			if v != nil {
				s.vectors[hash(batch[i])], s.changed = v, true
			}
		}
		if err != nil {
			return err
		}
		if !IsBuiltin(s.model) {
			select {
			case <-time.After(batchWait):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Wake asks the model for the vector of a word. APIs such as Ollama load the model at a request,
// and give that up when a search leaves.
func (s *Store) Wake(ctx context.Context) error {
	_, err := s.model.Embed(ctx, []string{"tool"})
	return err
}

// save writes the file, and removes the files of models that were not used for long.
func (s *Store) save() error {
	if s.path == "" || !s.changed {
		return nil
	}
	s.changed = false // another attempt comes with other vectors
	var data bytes.Buffer
	folder := filepath.Dir(s.path)
	err := errors.Join(gob.NewEncoder(&data).Encode(s.vectors), os.MkdirAll(folder, 0o700))
	if err == nil {
		err = atomicfile.Write(s.path, data.Bytes(), false)
	}
	if err != nil {
		return fmt.Errorf("keep the vectors of texts: %w", err)
	}
	age := make(map[string]time.Duration)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			age[e.Name()] = time.Since(info.ModTime())
		}
	}
	names := slices.SortedFunc(maps.Keys(age), func(a, b string) int { return int(age[a] - age[b]) })
	for _, name := range names[min(len(names), maxFiles):] {
		os.Remove(filepath.Join(folder, name))
	}
	return nil
}
