package secret

import (
	"os"
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
