package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"sync"
)

// TokenVariable holds the token that clients must send over HTTP. No server gets it.
const TokenVariable = "METAROUTER_TOKEN"

// own is the router's own token, once it is taken out of the environment.
var own struct {
	sync.Mutex // guards token
	token      string
}

// MinToken is how many characters a token needs with which other machines may reach the
// router: fewer can be guessed.
const MinToken = 16

// IsShort reports whether a token can be guessed. The text of a token of which only the hash is known is "".
func IsShort(token string) bool { return token != "" && len(token) < MinToken }

// HashPrefix begins a token that is given by its hash.
const HashPrefix = "sha256:"

// ParseToken returns the SHA-256 hash of a token, in 64 hex digits, and the token itself. It is ""
// for a text that gives the hash after [HashPrefix]. ok is false if no such hash follows.
func ParseToken(text string) (hash, token string, ok bool) {
	if hash, ok := strings.CutPrefix(text, HashPrefix); ok {
		if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size {
			return "", "", false
		}
		return strings.ToLower(hash), "", true
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), text, true
}

// Token returns the token of the environment variable [TokenVariable], "" if it is not
// set, and unsets it: no child of this process gets it.
func Token() string {
	own.Lock()
	defer own.Unlock()
	if token, ok := os.LookupEnv(TokenVariable); ok {
		own.token = token
		os.Unsetenv(TokenVariable)
	}
	return own.token
}

// LookupEnv is [os.LookupEnv] for the variables of a configuration, which may name
// [TokenVariable] too.
func LookupEnv(name string) (string, bool) {
	if name == TokenVariable {
		token := Token()
		return token, token != ""
	}
	return os.LookupEnv(name)
}
