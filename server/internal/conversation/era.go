package conversation

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Error codes of 2026-07-28.
const (
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// The keys of the modern era in _meta.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaServer       = "io.modelcontextprotocol/serverInfo"

	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// legacyRevisions are the revisions of the legacy era, the latest first.
var legacyRevisions = []string{session.LatestLegacy, "2025-06-18", "2025-03-26", session.Oldest}

// unnamedRevision is the revision of clients with an initialize that names no revision, such as clients made
// with mcp-go if the program does not set it: they refuse an answer that is newer than they
// are. 2025-06-18 has the same rule for a missing header: "the server SHOULD assume protocol
// version 2025-03-26".
const unnamedRevision = "2025-03-26"

// IsLegacy reports whether the version is a revision of the legacy era.
func IsLegacy(version string) bool { return slices.Contains(legacyRevisions, version) }

// Revisions returns all revisions that the router speaks, the latest first.
func Revisions() []string { return append([]string{session.Modern}, legacyRevisions...) }

// Unsupported returns the error for a revision that the router does not know.
func Unsupported(version string) error {
	return &session.Error{
		Code:    CodeUnsupportedVersion,
		Message: "unsupported protocol version " + version,
		Data:    fmt.Appendf(nil, `{"supported":%s,"requested":%s}`, wire.Marshal(Revisions()), wire.Marshal(version)),
	}
}

// completed adds the members that results of the modern era have and results of older servers
// lack: the type of the result, and the serverInfo of the router.
func completed(result json.RawMessage, info func() json.RawMessage) json.RawMessage {
	var found [2][]byte
	if wire.Pick(result, found[:], "resultType", "_meta") != nil {
		return result
	}
	hasInfo := wire.Member(found[1], MetaServer) != nil
	if found[0] == nil {
		result = wire.AddMember(result, "resultType", []byte(`"complete"`))
	}
	if !hasInfo {
		result = wire.SetMeta(result, MetaServer, info())
	}
	return result
}

// cacheable adds to a result of the modern era how long it may be kept, unless
// its server says so.
func cacheable(result json.RawMessage) json.RawMessage {
	if content.IsPending(result) {
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
