package caller

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// isText reports whether a text of another node is JSON as clients get it: valid, on one line.
func isText(text []byte) bool {
	return wire.Valid(text) && !wire.HasLineEnd(text) && utf8.Valid(text)
}

// isParams reports whether a text of another node is absent, or an object as clients get it.
func isParams(text json.RawMessage) bool { return text == nil || wire.IsObject(text) && isText(text) }
