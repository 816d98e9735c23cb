package encoder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const (
	maxFile   = 512 << 20 // bytes of a stored file
	maxStored = 256 << 20 // bytes of vectors, above which vectors of other texts are dropped
	maxFiles  = 4         // files, one for each version of the encoder and role; the latest stay
	batchSize = 32        // texts that are encoded before another goroutine has its turn
)

// A Store has the vectors of texts. Its methods may be called by many goroutines at once.
type Store struct {
	role Role      // of the texts
	path string    // "" keeps nothing
	read sync.Once // the file
	turn chan struct{}

	mu      sync.Mutex        // guards the fields below
	vectors map[string]Vector // by the hash of the text
	changed bool              // since the last attempt to save
}

// OpenStore returns the store of texts of that role in the folder; "" keeps nothing on disk. The file is read when
// it is first needed; one that is damaged counts as absent.
func OpenStore(role Role, folder string) *Store {
	s := &Store{role: role, turn: make(chan struct{}, 1), vectors: make(map[string]Vector)}
	if folder != "" {
		name := hash(fmt.Sprint(Version, " ", role))
		s.path = filepath.Join(folder, hex.EncodeToString([]byte(name))+".vectors")
	}
	return s
}

// load reads the file.
func (s *Store) load() {
	if s.path == "" {
		return
	}
	data, _ := safefile.ReadOwn(s.path, maxFile)
	var stored map[string]Vector
	if gob.NewDecoder(bytes.NewReader(data)).Decode(&stored) != nil {
		return
	}
	maps.DeleteFunc(stored, func(_ string, v Vector) bool { return !(math.Abs(float64(v.Dot(v))-1) < 0.01) && v.Dot(v) != 0 })
	s.vectors = stored
	os.Chtimes(s.path, time.Now(), time.Now()) // it is in use: see Save
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:16])
}

// Vectors returns the vectors of the texts, after it has encoded those that are not known on so many
// processors, 2.5 ms each. If ctx ends first, those that are still missing are nil, unless they are at most always.
func (s *Store) Vectors(ctx context.Context, texts []string, processors, always int) []Vector {
	s.read.Do(s.load)
	all, keys := make([]Vector, len(texts)), make([]string, len(texts))
	var missing []int
	s.mu.Lock()
	for i, text := range texts {
		keys[i] = hash(text)
		if all[i] = s.vectors[keys[i]]; all[i] == nil {
			missing = append(missing, i)
		}
	}
	s.mu.Unlock()
	if len(missing) <= always {
		ctx = context.WithoutCancel(ctx)
	}
	for batch := range slices.Chunk(missing, batchSize) {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return all
		}
		var g errgroup.Group
		g.SetLimit(processors)
		for _, i := range batch {
			g.Go(func() error {
				all[i] = s.vector(ctx, keys[i], texts[i])
				return nil
			})
		}
		_ = g.Wait() // no goroutine fails
		<-s.turn
	}
	return all
}

// vector returns the vector of a text, and encodes it unless it is known by now.
func (s *Store) vector(ctx context.Context, key, text string) Vector {
	s.mu.Lock()
	v := s.vectors[key]
	s.mu.Unlock()
	if v != nil || ctx.Err() != nil {
		return v
	}
	v = Embedded().Encode(text, s.role)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vectors[key], s.changed = v, true
	return v
}

// Save writes the file if there is a new vector, and removes files that were not used for long. While there is
// room, the vectors of other texts than those in use stay: their servers may not be listed yet.
func (s *Store) Save(inUse []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return nil
	}
	s.changed = false // another attempt comes with other vectors
	size := 0
	for _, v := range s.vectors {
		size += 4 * len(v)
	}
	if size > maxStored {
		used := make(map[string]bool, len(inUse))
		for _, text := range inUse {
			used[hash(text)] = true
		}
		maps.DeleteFunc(s.vectors, func(k string, _ Vector) bool { return !used[k] })
	}
	if s.path == "" {
		return nil
	}
	var data bytes.Buffer
	folder := filepath.Dir(s.path)
	err := errors.Join(gob.NewEncoder(&data).Encode(s.vectors), os.MkdirAll(folder, 0o700))
	if err == nil {
		err = safefile.Write(s.path, data.Bytes(), false)
	}
	if err != nil {
		return fmt.Errorf("keep the vectors of texts: %w", err)
	}
	removeOld(folder)
	return nil
}

// removeOld removes all files of the folder but the latest.
func removeOld(folder string) {
	var files []fs.FileInfo
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, f := range files[min(len(files), maxFiles):] {
		os.Remove(filepath.Join(folder, f.Name()))
	}
}
