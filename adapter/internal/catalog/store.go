package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A store keeps the offers of servers on disk, so that they are known before
// their server has started: one file a server, in the folder "catalog" of a data
// directory, readable by its owner alone. Files are replaced as a whole, so that
// many processes may read and write them at once.
type store struct {
	dir string // "" keeps nothing and finds nothing; it need not exist
	log *zap.Logger
}

func newStore(data string, log *zap.Logger) store {
	if data != "" {
		data = filepath.Join(data, "catalog")
	}
	return store{data, log.Named("store")}
}

// maxStored is the most bytes of a stored file. The lists of a server have at most 64 MiB
// each as the server sends them.
const maxStored = 256 << 20

// A stored file is a line of magic and the checksum of the rest: a server's offer as encode returns
// it, or an index as JSON.
const magic = "metarouter catalog 5 "

// maxOffer is the most bytes of definitions in an offer that is kept: to encode them takes
// a multiple of that in memory.
const maxOffer = 64 << 20

// sizeOf returns the bytes of the definitions.
func sizeOf(o registry.Offer) (n int) {
	for i := range o.Tools {
		t := &o.Tools[i]
		n += len(t.Definition) + len(t.InputSchema) + len(t.ServerSchema) + len(t.Flat) + len(t.Description)
	}
	for i := range o.Prompts {
		n += len(o.Prompts[i].Definition) + len(o.Prompts[i].Description)
	}
	for _, r := range slices.Concat(o.Resources, o.Templates, o.Skills) {
		n += len(r.Definition) + len(r.Description)
	}
	return n
}

// save keeps the offer of a server under a key of letters and digits, in place
// of what was kept under it before. If it fails, that is still there.
func (s store) save(key, server string, o registry.Offer) error {
	if s.dir == "" {
		return nil
	}
	if size := sizeOf(o); size > maxOffer {
		return fmt.Errorf("store the offer of %q: its definitions have %d MiB, more than the %d MiB that are kept", server, size>>20, maxOffer>>20)
	}
	body, err := encode(server, o)
	if err == nil {
		err = s.replace(s.path(key, server), body)
	}
	if err != nil {
		return fmt.Errorf("store the offer of %q: %w", server, err)
	}
	return nil
}

// replace replaces a file of the store.
func (s store) replace(path string, body []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return safefile.Write(path, append([]byte(header(body)), body...), false)
}

// parse reads a file of the store, which may be about a server, and calls f with the bytes behind
// its header. A damaged file, or one about which f returns an error, is removed.
func (s store) parse(path, server string, f func(body []byte) error) bool {
	data, err := safefile.ReadOwn(path, maxStored)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("can't read what was stored", zap.String("server", server), zap.Error(err))
		}
		return false
	}
	body, err := cut(data)
	if err == nil {
		err = f(body)
	}
	if err != nil {
		s.log.Warn("dropped a damaged stored file", zap.String("server", server), zap.Error(err), zap.NamedError("remove", os.Remove(path)))
		return false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // it is in use, for prune; a failure does no harm
	return true
}

// load returns the offer of a server that was kept under the key, if there is
// one. A file that is damaged or of another version is removed.
func (s store) load(key, server string) (registry.Offer, bool) {
	if s.dir == "" {
		return registry.Offer{}, false
	}
	var of string
	var o registry.Offer
	ok := s.parse(s.path(key, server), server, func(body []byte) (err error) {
		of, o, err = decode(body)
		return err
	})
	if !ok || of != server { // another server, with a name that looks the same in a file's name
		return registry.Offer{}, false
	}
	return o, true
}

// An index is what is stored of a configuration besides the offers of its servers.
type index struct {
	Keys   map[string]string // of the offers in use, by server: after an edit of an entry, its older offer is found
	Claims registry.Claims
}

// saveIndex keeps the index of a configuration, which place identifies by letters and digits.
func (s store) saveIndex(place string, i index) error {
	if s.dir == "" || place == "" {
		return nil
	}
	body, err := json.Marshal(i)
	if err == nil {
		err = s.replace(s.indexPath(place), body)
	}
	if err != nil {
		return fmt.Errorf("store which offers are in use, and which server has which URI: %w", err)
	}
	return nil
}

// loadIndex returns the stored index; an empty one without it.
func (s store) loadIndex(place string) (i index) {
	if s.dir != "" && place != "" {
		s.parse(s.indexPath(place), "", func(body []byte) error { return json.Unmarshal(body, &i) })
	}
	return i
}

func (s store) indexPath(place string) string {
	return filepath.Join(s.dir, "index-"+clean(place)+".json")
}

// prune removes the files that were neither saved nor loaded for maxAge.
func (s store) prune(maxAge time.Duration) error {
	if s.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prune stored offers: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) <= maxAge {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("prune stored offers: %w", err))
		}
	}
	return errors.Join(errs...)
}

// path returns the file of a server: its name, as far as it can be part of a
// file's name, and the key.
func (s store) path(key, server string) string {
	name := strings.Trim(clean(server), "_.")
	return filepath.Join(s.dir, name[:min(len(name), 60)]+"-"+clean(key)+".tools")
}

// clean replaces all that is not safe in a file's name on every platform.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '_'
	}, name)
}

func header(body []byte) string {
	sum := sha256.Sum256(body)
	return magic + hex.EncodeToString(sum[:]) + "\n"
}

// cut returns the bytes behind the header of a file.
func cut(data []byte) (body []byte, err error) {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	if !bytes.HasPrefix(line, []byte(magic)) {
		return nil, errors.New("not a catalog of this version")
	}
	if string(line)+"\n" != header(body) {
		return nil, errors.New("the checksum is wrong")
	}
	return body, nil
}
