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
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
	header header
	clear  []byte // the first two lines
	sealed []byte
}

// parse reads the file without its values. Nothing of the data is trusted.
func (of kind) parse(data []byte) (*file, error) {
	first, rest, ok := bytes.Cut(data, []byte("\n"))
	found, known := strings.CutPrefix(string(first), of.format)
	if !ok || !known {
		return nil, of.damaged()
	}
	if found != version {
		return nil, fmt.Errorf("this metarouter reads format %s of the file, and it has format %.20q; use the version of metarouter that wrote it", version, found)
	}
	second, third, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return nil, of.damaged()
	}
	f := &file{clear: data[:len(data)-len(third)]}
	if json.Unmarshal(second, &f.header) != nil || len(f.header.Names) > of.maxNames || len(f.header.Key) != keyIDSize {
		return nil, of.damaged()
	}
	for i, name := range f.header.Names {
		if !ValidName(name) || i > 0 && f.header.Names[i-1] >= name {
			return nil, of.damaged()
		}
	}
	var err error
	if f.sealed, err = base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(third, []byte("\n")))); err != nil {
		return nil, of.damaged()
	}
	return f, nil
}

// open decrypts the values.
func (of kind) open(f *file, k *key) (map[string]string, error) {
	plain, err := k.cipher().Open(nil, nil, f.sealed, f.clear)
	if err != nil {
		return nil, of.damaged()
	}
	var values map[string]string
	if json.Unmarshal(plain, &values) != nil || values == nil {
		return nil, of.damaged()
	}
	return values, nil
}

// seal returns the text of a file.
func (of kind) seal(k *key, values map[string]string) ([]byte, error) {
	names := append([]string{}, slices.Sorted(maps.Keys(values))...)
	head, err := json.Marshal(header{Key: k.id(), Names: names})
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	clear := fmt.Appendf(nil, "%s%s\n%s\n", of.format, version, head)
	sealed := k.cipher().Seal(nil, nil, plain, clear)
	return append(base64.StdEncoding.AppendEncode(clear, sealed), '\n'), nil
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
	k := new(key)
	text, tagged := strings.CutPrefix(text, of.keyTag)
	if !tagged {
		return nil, of.damagedKey()
	}
	if len(text) != hex.EncodedLen(len(k)) {
		return nil, of.damagedKey()
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		return nil, of.damagedKey()
	}
	return k, nil
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
