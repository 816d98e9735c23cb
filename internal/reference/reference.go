// Package reference expands variables, and describes references to secrets, which stand in a configuration in
// place of their values: ${keyring:NAME}, ${file:PATH}, ${cmd:COMMAND}, ${op://vault/item/field}, ${user:NAME} and ${claim:NAME}.
//
// A reference is resolved when a program starts or a request is sent. Only references that
// a trusted file has are resolved: the value of a variable may look like one, and stays
// text.
package reference

import "strings"

// A Reference is one reference of an entry.
type Reference struct {
	Text string // as the entry has it, from ${ to }
	Kind Kind
	Body string // see Kind
	Dir  string // the folder in which a Command runs
}

// A Kind says where the value is, and the meaning of Body.
type Kind string

// The kinds.
const (
	Keyring     Kind = "keyring" // Body is the name of a secret of our own store
	File        Kind = "file"    // Body is the absolute path of a file
	Command     Kind = "cmd"     // Body is a command line for the shell, which prints the value
	OnePassword Kind = "op"      // Body is a reference of 1Password's command op, with op://
	Input       Kind = "input"   // Body is the id of an input of VS Code
	User        Kind = "user"    // Body is the name of a value that each user of the router sets
	Claim       Kind = "claim"   // Body is a claim of the user's access token

	// Headers is no text in an entry: Body is the command of headersHelper, which prints headers.
	Headers Kind = "headers"
)

// MaxCommand is the most bytes of a command.
const MaxCommand = 4 << 10

// Cut returns the kind and the body of a reference, from the text between ${ and }. ok is
// false if the text is no reference to a secret.
func Cut(text string) (kind Kind, body string, ok bool) {
	if strings.HasPrefix(text, "op://") {
		return OnePassword, text, true
	}
	for _, kind := range []Kind{Keyring, File, Command, Input, User, Claim} {
		if body, ok := strings.CutPrefix(text, string(kind)+":"); ok {
			return kind, body, true
		}
	}
	return "", "", false
}

// Personal reports whether each user of the router has another value.
func (r Reference) Personal() bool { return r.Kind == User || r.Kind == Claim }

// InputName returns the name under which the value of an input of VS Code is stored.
func InputName(id string) string { return "input-" + id }
