package conversation

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// What marks a requestState as ours: for clients, and for other nodes, which pass theirs on to clients.
const (
	statePrefix     = "mr1."
	nodeStatePrefix = "mrn1."
)

// A sealer makes the requestState that a client keeps for a suspended request. Only the
// router that has the key can read or make one.
type sealer struct {
	cipher.AEAD
	prefix string // of each state
}

// newSealer takes a key of 32 bytes.
func newSealer(key []byte, prefix string) sealer {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the wrong length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return sealer{aead, prefix}
}

// seal returns the requestState of a suspended request.
func (s sealer) seal(id uint64, fingerprint [sha256.Size]byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, id)
	plain = binary.BigEndian.AppendUint64(plain, uint64(until.Unix()))
	plain = append(plain, fingerprint[:]...)
	nonce := make([]byte, s.NonceSize())
	rand.Read(nonce)
	return s.prefix + base64.RawURLEncoding.EncodeToString(s.Seal(nonce, nonce, plain, nil))
}

// unseal is the inverse of seal, whatever follows an "@". It reports false if the state was not sealed with the
// key, or has expired.
func (s sealer) unseal(state string) (id uint64, fingerprint [sha256.Size]byte, ok bool) {
	state, _, _ = strings.Cut(strings.TrimPrefix(state, s.prefix), "@")
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || len(sealed) < s.NonceSize() {
		return 0, fingerprint, false
	}
	plain, err := s.Open(nil, sealed[:s.NonceSize()], sealed[s.NonceSize():], nil)
	if err != nil || len(plain) != 16+len(fingerprint) {
		return 0, fingerprint, false
	}
	copy(fingerprint[:], plain[16:])
	until := time.Unix(int64(binary.BigEndian.Uint64(plain[8:])), 0)
	return binary.BigEndian.Uint64(plain), fingerprint, time.Now().Before(until)
}

// elsewhere returns the address of the gateway that has suspended the request which r goes on with; "" if it is this
// router, or the requestState does not say.
func (all *suspensions) elsewhere(r *Request) string {
	if r.passed || r.clients.Address == nil || all.find(r.Message) != nil {
		return ""
	}
	_, address, _ := strings.Cut(all.stateOf(r.Message), "@")
	if len(address) > maxID || address == r.clients.Address() { // it is no address, or has expired
		return ""
	}
	return address
}

// stateOf returns the requestState of a message, "" if it is not ours.
func (all *suspensions) stateOf(m Message) string {
	state, _ := wire.String(wire.Member(m.Params, "requestState"))
	if !strings.HasPrefix(state, all.sealer.prefix) {
		return ""
	}
	return state
}

// find returns the suspended request of the requestState in a message, nil if there is none here.
func (all *suspensions) find(m Message) *suspension {
	id, fingerprint, ok := all.sealer.unseal(all.stateOf(m))
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byID[id]; ok && s != nil && s.fingerprint == fingerprint {
		return s
	}
	return nil
}
