package encoder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func texts(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("does %d", i))
	}
	return all
}

// known returns how many of the texts a store has without encoding.
func known(s *Store, texts []string) (n int) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, v := range s.Vectors(ctx, texts, 1, 0) {
		if v != nil {
			n++
		}
	}
	return n
}

// A vector is made once, also across starts, and again for texts of another role.
func TestStoreKeepsVectors(t *testing.T) {
	folder, all := t.TempDir(), texts(40)
	s := OpenStore(Tool, folder)
	expect.Equal(t, known(s, all), 0, "… are known at first")
	made := s.Vectors(t.Context(), all, 2, 0)
	for i, v := range made {
		if length := v.Dot(v); !(length > 0.99 && length < 1.01) || v.Dot(Embedded().Encode(all[i], Tool)) < 0.999 {
			t.Errorf("text %d has a vector of length %v", i, length)
		}
	}
	expect.OK(t, s.Save(all))
	expect.Equal(t, known(OpenStore(Tool, folder), texts(41)), 40, "known after a start")
	expect.Equal(t, known(OpenStore(Task, folder), all), 0, "known of another role")
	expect.OK(t, OpenStore(Tool, folder).Save(nil)) // before servers are listed
	expect.Equal(t, known(OpenStore(Tool, folder), all), 40, "known after an empty catalog")
}

// So many texts are encoded after the end of the context, too.
func TestAlwaysEncoded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := OpenStore(Tool, "")
	s.Vectors(ctx, texts(batchSize+1), 1, batchSize)
	expect.Equal(t, known(s, texts(batchSize+1)), 0, "known of more")
	s.Vectors(ctx, texts(batchSize), 1, batchSize)
	expect.Equal(t, known(s, texts(batchSize)), batchSize, "known")
}

// Vectors that can't be saved are used, and there is one attempt.
func TestStoreWithoutFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	s := OpenStore(Tool, filepath.Join(file, "folder"))
	if s.Vectors(t.Context(), texts(3), 1, 0); s.Save(nil) == nil || s.Save(nil) != nil {
		t.Error("saved, or tried again")
	}
	expect.Equal(t, known(s, texts(3)), 3, "known")
}

// A damaged file counts as absent, and so does a vector that has neither the length 1 nor 0.
func TestStoreSurvivesDamage(t *testing.T) {
	folder := t.TempDir()
	s := OpenStore(Task, folder)
	const unknown = "ลบไฟล์ทั้งหมด"
	s.Vectors(t.Context(), append(texts(3), unknown), 1, 0)
	s.vectors[hash("long")] = Vector{1, 1}
	expect.OK(t, s.Save(nil))
	expect.Equal(t, known(OpenStore(Task, folder), append(texts(3), "long", unknown)), 4, "known")
	files, _ := filepath.Glob(filepath.Join(folder, "*.vectors"))
	data, err := os.ReadFile(files[0])
	expect.OK(t, err)
	for _, damaged := range [][]byte{data[:len(data)-1], {}, []byte("x")} {
		expect.OK(t, os.WriteFile(files[0], damaged, 0o600))
		expect.Equal(t, known(OpenStore(Task, folder), texts(3)), 0, "known from a damaged file")
	}
}
