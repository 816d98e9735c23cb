package clusternode

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
)

// length is how many characters the public key of a node has.
const keyLength = 56

// CheckKey says why a text is not the public key of a node, with the correction; nil if it is one.
// The error completes a sentence that begins with the key, and shows no part of the text.
func CheckKey(key string) error {
	const advice = "; write the key that 'metarouter nodes key' prints on that node, which begins with U"
	switch {
	case strings.HasPrefix(key, "S"):
		return errors.New("seems to be the seed of a private key, which no other node may know" + advice + ", and make a new private key")
	case len(key) != keyLength:
		return fmt.Errorf("has %d characters, and the public key of a node has %d"+advice, len(key), keyLength)
	case key[0] != 'U':
		return errors.New("is not the public key of a node" + advice)
	case !nkeys.IsValidPublicUserKey(key):
		return errors.New("has a wrong checksum, so a character of it is wrong" + advice)
	}
	return nil
}
