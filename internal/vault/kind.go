package vault

import (
	"errors"
	"fmt"
)

// A kind is the purpose of a vault, which decides the names of its files.
type kind struct {
	noun    string // in errors, such as "secrets"; also the stem of the names of its files
	format  string // that begins the file, with the space before the version
	keyTag  string // that begins the key file
	again   string // advice for a lost file, in errors
	smaller string // how to make the file smaller, in errors

	maxNames int
}

var (
	ofSecrets = kind{
		noun: "secrets", format: "metarouter-secrets ", again: "set the secrets again",
		smaller: "keep large ones in files and write ${file:PATH}", maxNames: maxNames,
	}
	ofLogins = kind{
		noun: "logins", format: "metarouter-logins ", keyTag: "logins ", again: "log in again",
		smaller: "log out from some servers", maxNames: 1,
	}
)

func (k kind) file() string { return k.noun + ".enc" }
func (k kind) key() string  { return k.noun + ".key" }
func (k kind) lock() string { return k.noun + ".lock" }

// account returns the name in the keyring of the key with an id. Each key has an entry of
// its own, so that vaults of several folders do not overwrite each other's.
func (k kind) account(id string) string { return k.noun + " " + id }

func (k kind) damaged() error {
	return errors.New("the file is damaged or was changed by another program; restore it, or remove it and " + k.again)
}

func (k kind) damagedKey() error {
	return fmt.Errorf("the key is damaged; restore it, or remove the files %s.* and %s", k.noun, k.again)
}
