package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/net/http/httpguts"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// maxHeaders is how many headers a command may print.
const maxHeaders = 50

// headers runs the command of headersHelper and returns the headers that it prints. It runs at
// each connection, as Claude Code runs it, and so nothing is kept.
func (r *Resolver) headers(ctx context.Context, entry config.Server, ref reference.Reference) (map[string]string, error) {
	printed, err := r.command(ctx, entry, ref)
	if err == nil {
		var headers map[string]string
		if headers, err = parseHeaders(printed); err == nil {
			return headers, nil
		}
	}
	return nil, &Error{ref.Text, err}
}

// parseHeaders reads the output of a headersHelper: a JSON object of strings. Its errors quote
// nothing of it.
func parseHeaders(printed string) (map[string]string, error) {
	if len(printed) > vault.MaxValue {
		return nil, fmt.Errorf("the command prints more than %d KiB", vault.MaxValue>>10)
	}
	var headers map[string]string
	if json.Unmarshal([]byte(printed), &headers) != nil || headers == nil {
		return nil, errors.New(`the command must print a JSON object of strings, such as {"Authorization": "Bearer …"}, and nothing else`)
	}
	if len(headers) > maxHeaders {
		return nil, fmt.Errorf("the command prints more than %d headers", maxHeaders)
	}
	for name, value := range headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("the command prints a header that HTTP does not allow")
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection":
			return nil, fmt.Errorf("the command prints the header %s, which belongs to the connection", http.CanonicalHeaderKey(name))
		}
	}
	return headers, nil
}

// helperEnv returns the variables that a headersHelper gets, by the names that Claude Code has
// for them; nil for other commands.
func helperEnv(entry config.Server, ref reference.Reference) map[string]string {
	if ref.Kind != reference.Headers {
		return nil
	}
	return map[string]string{"CLAUDE_CODE_MCP_SERVER_NAME": entry.Name, "CLAUDE_CODE_MCP_SERVER_URL": entry.URL}
}
