package clusternode

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// maxFile bounds the key file, in bytes.
const maxFile = 4096

// An Identity is the key of a node.
type Identity struct {
	path    string
	public  string
	private ed25519.PrivateKey
}

// OpenIdentity reads the key file at path: the seed of an nkey of a NATS user. It makes the file, with mode
// 0600, and its folder if they do not exist; two processes that do so at once get the same key. A
// file that other users can read is an error, since one of them could be this node.
func OpenIdentity(path string) (*Identity, error) {
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("make the key of this node: %w", err)
		}
		text, err = read(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of this node: %w", err)
	}
	private, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the key of this node: %s %w; remove the file to make a new key, which other nodes then have to trust", path, err)
	}
	public, err := nkeys.Encode(nkeys.PrefixByteUser, private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("encode the public key of this node: %w", err)
	}
	return &Identity{path, string(public), private}, nil
}

func read(path string) ([]byte, error) {
	if err := errors.Join(safefile.Unshared(path), safefile.OwnersOnly(path)); err != nil {
		return nil, err
	}
	return safefile.Read(path, maxFile)
}

// parse reads the seed of a user's nkey. Its errors show nothing of the text.
func parse(text []byte) (ed25519.PrivateKey, error) {
	prefix, seed, err := nkeys.DecodeSeed(bytes.TrimSpace(text))
	if err != nil || prefix != nkeys.PrefixByteUser {
		return nil, errors.New("does not contain the seed of a user's nkey, which begins with SU")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// create makes the key file, unless there is one.
func create(path string) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return err
	}
	text, err := nkeys.EncodeSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		return err
	}
	return safefile.Create(path, append(text, '\n'))
}

// Key returns the public key, as text that begins with U.
func (i *Identity) Key() string { return i.public }

// Sign signs data. The data must begin with its purpose, such as "metarouter result 2\n", so that a
// signature for one purpose is worth nothing for another.
func (i *Identity) Sign(data []byte) ([]byte, error) { return ed25519.Sign(i.private, data), nil }

// Signer returns the private key, for TLS, which signs texts of its own.
func (i *Identity) Signer() crypto.Signer { return i.private }

// Fingerprint is a public key as people compare it: its first and last 8 characters.
func Fingerprint(key string) string {
	if len(key) <= 16 {
		return key
	}
	return key[:8] + "…" + key[len(key)-8:]
}

// TryShare takes the lock of the routers that have this key, which says which of them shares its
// servers. If another one has it, TryShare returns nil; ask again some time later. The lock ends
// with release, or the process.
func (i *Identity) TryShare() (release func(), err error) {
	path := i.path + ".lock"
	f, err := safefile.Append(path, 0)
	if err != nil {
		return nil, fmt.Errorf("take the lock of the node: %w", err)
	}
	ok, err := safefile.TryLock(f)
	if ok {
		return func() { f.Close() }, nil
	}
	f.Close()
	if err != nil {
		err = fmt.Errorf("take the lock of the node: %s: %w", path, err)
	}
	return nil, err
}
