package urls

import "strings"

// OwnScheme begins the URIs of the router itself.
const OwnScheme = "metarouter:"

// IsOwn reports whether a URI, or a URI template, is not a server's to give.
func IsOwn(uri string) bool {
	return len(uri) >= len(OwnScheme) && strings.EqualFold(uri[:len(OwnScheme)], OwnScheme)
}
