package server

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// codeUnsupportedVersion is UnsupportedProtocolVersionError of 2026-07-28.
const codeUnsupportedVersion = -32022

// checkEra reports whether a request is of the modern era, which its _meta says.
// It is an error if that _meta names a revision that we don't know, or lacks the
// client's capabilities, which every modern request must have.
func checkEra(params json.RawMessage) (modern bool, err error) {
	meta := wire.Member(params, "_meta")
	if meta == nil {
		return false, nil
	}
	version, _ := wire.String(wire.Member(meta, mcp.MetaKeyProtocolVersion))
	switch {
	case version < session.Modern:
		return false, nil
	case version > session.Modern:
		return true, &session.Error{
			Code:    codeUnsupportedVersion,
			Message: "unsupported protocol version",
			Data: wire.Marshal(mcp.UnsupportedProtocolVersionData{
				Supported: mcp.SupportedProtocolVersions(),
				Requested: version,
			}),
		}
	case !wire.IsObject(wire.Member(meta, mcp.MetaKeyClientCapabilities)):
		return true, invalidParams("missing or invalid _meta field " + mcp.MetaKeyClientCapabilities)
	}
	return true, nil
}

// complete adds what results of the modern era have and those of older servers
// lack: the type of the result, and who answers.
func (s *Server) complete(result json.RawMessage) json.RawMessage {
	if wire.Member(result, "resultType") == nil {
		result = wire.SetMember(result, "resultType", []byte(`"complete"`))
	}
	if wire.Member(wire.Member(result, "_meta"), mcp.MetaKeyServerInfo) == nil {
		result = withMeta(result, mcp.MetaKeyServerInfo, s.info)
	}
	return result
}

// withMeta returns the result with a member of its _meta set.
func withMeta(result json.RawMessage, key string, value []byte) json.RawMessage {
	meta := wire.Member(result, "_meta")
	if !wire.IsObject(meta) {
		meta = []byte("{}")
	}
	return wire.SetMember(result, "_meta", wire.SetMember(meta, key, value))
}
