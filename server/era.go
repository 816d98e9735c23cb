package server

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// Error codes of 2026-07-28.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// The keys of the modern era in _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// checkEra reports whether a request is of the modern era, which its _meta says.
// It is an error if that names a revision that we don't know, or lacks the
// client's capabilities, which every modern request must have.
func checkEra(meta json.RawMessage) (modern bool, err error) {
	if meta == nil {
		return false, nil
	}
	raw := wire.Member(meta, metaVersion)
	version, ok := wire.String(raw)
	switch {
	case raw == nil:
		return false, nil
	case !ok:
		return true, invalidParams(metaVersion + " in _meta must be a string")
	case version != session.Modern:
		return true, unsupported(version)
	case !wire.IsObject(wire.Member(meta, metaCapabilities)):
		return true, invalidParams("missing or invalid _meta field " + metaCapabilities)
	}
	return true, nil
}

func unsupported(version string) error {
	return &session.Error{
		Code:    codeUnsupportedVersion,
		Message: "unsupported protocol version " + version,
		Data: wire.Marshal(struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{revisions, version}),
	}
}

// complete adds what results of the modern era have and those of older servers
// lack: the type of the result, and who answers.
func (s *Server) complete(result json.RawMessage) json.RawMessage {
	var kind, meta []byte
	if wire.Members(result, func(key string, value []byte) bool {
		switch key {
		case "resultType":
			kind = value
		case "_meta":
			meta = value
		}
		return true
	}) != nil {
		return result
	}
	if kind == nil {
		result = wire.AddMember(result, "resultType", []byte(`"complete"`))
	}
	if wire.Member(meta, metaServer) == nil {
		result = withMeta(result, metaServer, s.info)
	}
	return result
}

// cacheable adds to a result of the modern era how long it may be kept, unless
// its server has said so.
func cacheable(result json.RawMessage) json.RawMessage {
	if kind := wire.Member(result, "resultType"); kind != nil && string(kind) != `"complete"` {
		return result
	}
	if wire.Member(result, "ttlMs") == nil {
		result = wire.SetMember(result, "ttlMs", []byte("0"))
	}
	if wire.Member(result, "cacheScope") == nil {
		result = wire.SetMember(result, "cacheScope", []byte(`"private"`))
	}
	return result
}

// withMeta returns the object with a member of its _meta set.
func withMeta(object json.RawMessage, key string, value []byte) json.RawMessage {
	meta := wire.Member(object, "_meta")
	if !wire.IsObject(meta) {
		meta = []byte("{}")
	}
	return wire.SetMember(object, "_meta", wire.SetMember(meta, key, value))
}
