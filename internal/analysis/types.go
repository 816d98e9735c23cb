package analysis

// A Type is a kind of value that a task may hold, such as a URL, and that a parameter may
// take.
type Type uint8

// The types of values.
const (
	URLType      Type = iota // https://example.com/a
	HostType                 // example.com, 10.0.0.1
	PathType                 // /tmp/a.csv, src/main.go, a.csv
	NumberType               // 3, 12.5 km, 40 %
	DateType                 // 2026-11-22, tomorrow at 9, next week
	QuotedType               // "a text"
	EmailType                // ann@example.com
	IDType                   // ACME-142, #12, a UUID, a SHA
	UserType                 // @name
	ChannelType              // #general
	NameType                 // a capitalised name within a sentence
	CodeType                 // `a + b`, a function call
	QueryType                // SELECT … FROM, a query in some language
	SelectorType             // button.submit, #login > a
	VariableType             // $HOME, NODE_ENV
	CommandType              // npm test, after a word such as "run"
	NumTypes
)

// String returns the type's name, such as "url".
func (t Type) String() string {
	return [NumTypes]string{
		URLType: "url", HostType: "host", PathType: "path", NumberType: "number", DateType: "date",
		QuotedType: "quote", EmailType: "email", IDType: "id", UserType: "user", ChannelType: "channel",
		NameType: "name", CodeType: "code", QueryType: "query", SelectorType: "selector", VariableType: "variable",
		CommandType: "command",
	}[t]
}

// Types is a set of types.
type Types uint32

// Has reports whether t is in the set.
func (s Types) Has(t Type) bool { return s&(1<<t) != 0 }

// With returns the set and t.
func (s Types) With(t Type) Types { return s | 1<<t }
