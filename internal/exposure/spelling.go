package exposure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the length of the longest exposed name, in bytes: 64, which Claude Desktop,
// OpenAI and VS Code allow, less the mcp__metarouter__ that Claude Code puts before it.
const maxName = 47

// nodeMark stands in exposed names between a server and its node, instead of the @ that is legal in few
// clients.
const nodeMark = "-at-"

// A spelling makes exposed names. It is the separator between server and item; "" is "__".
type spelling string

func (s spelling) separator() string { return cmp.Or(string(s), "__") }

// separators are the texts that a caller may write between server and item.
func (s spelling) separators() []string { return []string{"__", ".", ":", s.separator()} }

// cut returns the rest, which follows a server's name, without the separator at its beginning.
func (s spelling) cut(rest string) (name string, ok bool) {
	for _, separator := range s.separators() {
		if name, ok = strings.CutPrefix(rest, separator); ok {
			return name, true
		}
	}
	return "", false
}

// exposedServer returns the name of a server as exposed names have it: "gpu-at-box" for "gpu@box",
// which is on another node.
func exposedServer(server string) string {
	i := strings.LastIndexByte(server, '@')
	if i < 0 {
		return server
	}
	return server[:i] + nodeMark + server[i+1:]
}

func (s spelling) prefixed(server, name string) string {
	return exposedServer(server) + s.separator() + name
}

// isPlain reports whether an item may be called server__name: the name is legal, and no
// other item of any server could give the same, but for "a@b" and "a-at-b".
func (s spelling) isPlain(server, name string) bool {
	name = s.prefixed(server, name)
	return s.isLegal(name) && strings.Index(name, s.separator()) == len(exposedServer(server))
}

func (s spelling) isLegal(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, s.isIllegal)
}

func (s spelling) isIllegal(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return false
	}
	return !strings.ContainsRune(s.separator(), r)
}

// hashed returns the name of an item, cut and altered as needed, with a hash of the whole name. A name in
// another script is transliterated, or the first words about the item stand for it. The
// attempt is above 0 only if two items have the same hash.
func (s spelling) hashed(server, own, about string, attempt int) string {
	sum := sha256.Sum256([]byte(server + "\x00" + own + strings.Repeat("\x00", attempt)))
	hash := "_" + hex.EncodeToString(sum[:4])
	if !isASCII(own) {
		own = readable(own, about)
	}
	name := s.prefixed(server, own)
	if !isASCII(name) {
		name = latin(name)
	}
	name = strings.Map(func(r rune) rune {
		if s.isIllegal(r) {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), maxName-len(hash))] + hash
}
