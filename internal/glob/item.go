package glob

import "strings"

// An Item is something that a server offers, such as a tool.
type Item struct {
	Name string // that the server gave it; of a resource the URI
	ID   string // "server:name"
}

// Matches reports whether the pattern matches the name, the ID or "server__name", as clients list the item.
func (i Item) Matches(p Pattern) bool {
	return p.Match(i.Name) || p.Match(i.ID) || strings.Contains(p.text, "__") && p.Match(strings.Replace(i.ID, ":", "__", 1))
}

// IsAllowed reports whether a pattern of allowed items matches. The server chose the name: it
// must not get its tool allowed as the tool of another server by calling it "other:read", or as one
// with a name that begins with "git" because the server's name does. So a pattern with a colon is
// compared with the ID only, and one without with the name only. A pattern with "://" is
// compared with both.
func (i Item) IsAllowed(p Pattern) bool {
	return (p.isURI || !p.isID) && p.Match(i.Name) || p.isID && p.Match(i.ID)
}
