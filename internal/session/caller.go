package session

// A Caller is who is behind a client of the router, as far as logins at servers go. The zero
// value may begin no logins.
type Caller struct {
	Principal string // the SHA-256 of its token over HTTP; "" without
	Name      string // of the principal, for a person; may be ""
	MayLogIn  bool   // it may log in at servers, for all clients
	OverHTTP  bool   // it need not be on this machine
}

// CallerOf returns who is behind a client. It reports false for clients that are the program
// itself, such as a command. from may be nil.
func CallerOf(from Client) (who Caller, ok bool) {
	if of, ok := from.(interface{ Caller() Caller }); ok {
		return of.Caller(), true
	}
	return Caller{}, false
}

// GeminiArgument is the argument that Gemini's command line adds to the schema of every tool for itself. It is left
// in the arguments that it sends, seen with version 0.61.0.
const GeminiArgument = "wait_for_previous"
