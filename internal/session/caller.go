package session

// A Caller is who is behind a client of the router, as far as logins at servers go. The zero
// value may begin no logins.
type Caller struct {
	Principal string // the SHA-256 of its token over HTTP; "" without
	Name      string // of the principal, for a person; may be ""
	Claims    string // of its access token, those that entries name: a JSON object of texts; "" without
	MayLogIn  bool   // it may log in at servers, for all clients
	OverHTTP  bool   // it need not be on this machine
	Place     any    // where its process runs, a supervisor.Place; nil if that does not matter
}

// CallerOf returns who is behind a client. It reports false for clients that are the program
// itself, such as a command. from may be nil.
func CallerOf(from Client) (who Caller, ok bool) {
	if of, ok := As[interface{ Caller() Caller }](from); ok {
		return of.Caller(), true
	}
	return Caller{}, false
}

// A Principal is the owner of a server's message if the session is for all clients of a principal. It has no methods of a client.
type Principal struct {
	Client
	ID string // as Principal of [Caller]
}

// Owns reports whether a message of a server is for the client. owner is the only client that uses the server's session, a
// [Principal] if all its clients do, and nil if all clients do.
func Owns(owner, from Client) bool {
	if of, ok := owner.(Principal); ok {
		who, _ := CallerOf(from)
		return who.Principal == of.ID
	}
	return owner == nil || owner == from.Home()
}

// As returns the first client of type T: from itself, or one that it wraps. A client wraps the one that
// its method Unwrap() Client returns. from may be nil.
func As[T any](from Client) (found T, ok bool) {
	for {
		if found, ok = from.(T); ok {
			return found, true
		}
		wrapper, wraps := from.(interface{ Unwrap() Client })
		if !wraps {
			return found, false
		}
		from = wrapper.Unwrap()
	}
}

// GeminiArgument is the argument that Gemini's command line adds to the schema of every tool for itself. It is left
// in the arguments that it sends, seen with version 0.61.0.
const GeminiArgument = "wait_for_previous"
