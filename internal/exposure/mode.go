package exposure

// The modes in which a router shows its tools.
const (
	Auto   = "auto"   // Direct if the list is cheap, else Search
	Direct = "direct" // all tools are listed
	Search = "search" // tools that find and run the others are listed
)

// ModeFor returns Direct or Search: the mode itself, or Auto's choice for a list of tools that costs so
// many tokens.
func ModeFor(mode string, tokens, budget int) string {
	switch {
	case mode == Direct || mode == Search:
		return mode
	case tokens > budget:
		return Search
	}
	return Direct
}
