package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// account returns the name in the keyring of the key with an id. Each key has an entry of
// its own, so that vaults of several folders do not overwrite each other's.
func (of kind) account(id string) string { return of.noun + " " + id }

func (of kind) format() string { return "metarouter-" + of.noun + " " }

func (of kind) damaged() error {
	return errors.New("the file is damaged or was changed by another program; restore it, or remove it and " + of.again)
}

func (of kind) damagedKey() error {
	return fmt.Errorf("the key is damaged; restore it, or remove the files %s.* and %s", of.noun, of.again)
}

// The file has three lines: the format with its version; a header in JSON; and the values,
// which are a JSON object encrypted with AES-256-GCM, in base64. The first two lines are
// authenticated with them. The nonce is random, new at each write, and precedes the
// encrypted bytes.
const version = "1"

// A header can be read without the key.
type header struct {
	Key   string   `json:"key"`   // the id of the key
	Names []string `json:"names"` // of all values, sorted
}

// A file is a file before its values are decrypted. The zero value is no file.
type file struct {
	kind
	header header
	clear  []byte // the first two lines
	sealed []byte
}

// parse reads the file without its values. Nothing of the data is trusted.
func (of kind) parse(data []byte) (*file, error) {
	lines := bytes.SplitN(data, []byte("\n"), 3)
	found, known := strings.CutPrefix(string(lines[0]), of.format())
	switch {
	case known && len(lines) > 1 && found != version:
		return nil, fmt.Errorf("this metarouter reads format %s of the file, and it has format %.20q; use the version of metarouter that wrote it", version, found)
	case !known || len(lines) < 3:
		return nil, of.damaged()
	}
	f := &file{kind: of, clear: data[:len(data)-len(lines[2])]}
	err := json.Unmarshal(lines[1], &f.header)
	if err == nil {
		f.sealed, err = base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(lines[2], []byte("\n"))))
	}
	invalid := func(name string) bool { return !ValidName(name) }
	if err != nil || len(f.header.Names) > maxNames || len(f.header.Key) != keyIDSize || slices.ContainsFunc(f.header.Names, invalid) {
		return nil, of.damaged()
	}
	return f, nil
}

// open decrypts the values.
func (f *file) open(k *key) (values map[string]string, err error) {
	plain, err := k.cipher().Open(nil, nil, f.sealed, f.clear)
	if err != nil || json.Unmarshal(plain, &values) != nil || !slices.Equal(slices.Sorted(maps.Keys(values)), f.header.Names) {
		return nil, f.damaged()
	}
	return values, nil
}

// seal returns the text of a file.
func (of kind) seal(k *key, values map[string]string) []byte {
	names := append([]string{}, slices.Sorted(maps.Keys(values))...)
	clear := fmt.Appendf(nil, "%s%s\n%s\n", of.format(), version, wire.Marshal(header{Key: k.id(), Names: names}))
	sealed := k.cipher().Seal(nil, nil, wire.Marshal(values), clear)
	return append(base64.StdEncoding.AppendEncode(clear, sealed), '\n')
}

// A key encrypts a file.
type key [32]byte

// keyIDSize is how many characters the id of a key has.
const keyIDSize = 16

func newKey() *key {
	k := new(key)
	rand.Read(k[:])
	return k
}

// parseKey reads the text of a key: the reverse of [kind.keyText].
func (of kind) parseKey(text string) (*key, error) {
	text, tagged := strings.CutPrefix(text, of.keyTag)
	data, err := hex.DecodeString(text)
	if err != nil || !tagged || len(data) != len(key{}) {
		return nil, of.damagedKey()
	}
	return (*key)(data), nil
}

func (of kind) keyText(k *key) string { return of.keyTag + hex.EncodeToString(k[:]) }

// id identifies the key, and tells nothing of it.
func (k *key) id() string {
	sum := sha256.Sum256(append([]byte("metarouter key id "), k[:]...))
	return hex.EncodeToString(sum[:keyIDSize/2])
}

func (k *key) cipher() cipher.AEAD {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic(err) // the size of the key is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the size of the block is right
	}
	return aead
}
