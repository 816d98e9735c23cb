package callee

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxName bounds the names that a client gives itself or its node gives it, and the names of
// servers and tools, in bytes.
const maxName = 1 << 10

// isOffer reports whether a header describes a call. Params are checked when they are there.
func isOffer(h *frame.Header) bool {
	o := h.Offer
	return h.Call != "" && o != nil && isCallable(o.Method) && (o.Method == "tools/call") == (o.Tool != "") &&
		len(h.Server) <= maxName && len(o.Tool) <= maxName && o.Timeout >= 0 && isDescribed(o)
}

// isCallable reports whether gateways may ask for requests with the method. Those that change the
// session with the server, such as logging/setLevel, and lists, which the announcement has, are not
// for them.
func isCallable(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return true
	}
	return strings.HasPrefix(method, "tasks/")
}

// isDescribed reports whether the description of the client in an offer can be passed on to
// servers.
func isDescribed(o *frame.CallOffer) bool {
	for _, text := range []string{o.Origin.Profile, o.Origin.Principal, o.Origin.Name} { // logs have them
		if len(text) > maxName || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return false
		}
	}
	return len(o.Client) <= maxName && isParams(o.Meta) && isParams(o.Capabilities)
}

// isParamsOf reports whether params are the params of the call: for the tool that the offer names,
// which is the one that the rules are about, and without _meta, which the offer has.
func isParamsOf(o *frame.CallOffer, params json.RawMessage) bool {
	if !isParams(params) {
		return false
	}
	ok := true
	_ = wire.Members(params, func(key string, value []byte) bool {
		name, isText := wire.String(value)
		switch {
		case key == "_meta":
			ok = false
		case key == "name" && o.Tool != "":
			ok = ok && isText && name == o.Tool
		}
		return true
	})
	return ok
}

// isParams reports whether a text is absent, or a JSON object on one line, as servers get it.
func isParams(text json.RawMessage) bool {
	return text == nil || wire.IsObject(text) && wire.Valid(text) && !wire.HasLineEnd(text)
}
