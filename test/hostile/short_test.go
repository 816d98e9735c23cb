//go:build linux

package hostile

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// The cases that a short run leaves out, since they take long, or another one is much like
// them.
var longServers = []string{
	"schema doubled by anyOf", "schema doubled by oneOf", "schema doubled by if", "schema with uniqueItems",
	"schema with $ref to an address", "schema with 100,000 enum values", "output schema doubled by allOf",
	"resource list without end", "prompt list without end", "cursors that repeat", "cursor of 4 MB",
	"50,000 tools", "50,000 resources", "tool list of one string", "tool list that is null",
	"tool list never answered", "tool list of 100 MB",
	"names with line ends", "names with bidi controls", "names with NUL", "names of 1 MB",
	"names of other servers", "names with zero width", "template that explodes", "10,000 equal names",
	"flood of prompts/list_changed", "flood of resources/list_changed", "flood of resources/updated",
	"flood of cancellations", "flood of unknown notifications", "flood of progress", "flood on stderr",
	"flood of empty lines", "flood of empty objects", "flood of brackets", "flood of errors",
	"flood of requests unknown", "flood of batches",
	"answer a byte a second", "answers to all ids", "error that is not UTF-8", "error with a lone surrogate",
	"answer with escaped NULs", "answer nested 10,000 deep", "error nested 1,000,000 deep", "answer of 300 MB",
	"errors of wrong types", "errors that are strings", "result twice in a message",
	"results that are no objects", "two messages in a line", "answers in UTF-16", "error message of 8 MB",
	"flood of elicitation outside a call", "flood of roots outside a call", "flood of roots in a call",
	"flood of sampling in a call", "question and death",
	"initialize without an end", "initialize answered twice", "exit before everything",
	"exit with a flood on stderr", "both eras, and neither", "discovery with 1,000,000 versions",
	"initialize with wrong types", "text instead of messages", "exit during the handshake",
	"death by signal", "children that leave", "children without environment", "SIGTERM ignored",
	"signals to the router", "10,000 open files", "stdin closed, but living",
	"HTTP redirect to a file", "HTTP redirect of 1 MB", "HTTP event of many lines",
	"HTTP event of an endless field", "HTTP events with huge ids", "HTTP stream with a retry of years",
	"HTTP bomb of gzip in the handshake", "HTTP answer a byte a second", "HTTP 100 Continue without an end",
	"HTTP connection that is silent", "HTTP connection that is closed", "HTTP connection with noise",
	"HTTP body of 300 MB", "HTTP with odd content types", "HTTP 503 with a Retry-After of years",
	"HTTP 404 always", "HTTP 500 always", "HTTP 204 for requests", "HTTP session id of 500 KB",
	"HTTP cookies and headers in answers",
}

var longClients = []string{
	"connections that are silent", "headers a byte at a time", "chunks a byte at a time",
	"bodies of 16 MB at once", "body compressed as a bomb", "announced continuation", "headers by the thousand",
	"requests piled up in a connection", "streams that are not read", "another protocol", "methods of HTTP",
	"metrics and pages by the thousand", "events of the page by the hundred",
	"messages with lone surrogates", "messages that are none", "method of 4 MB", "progress of no one",
	"answers to no question", "listeners by the hundred", "completion of megabytes", "lists with wild cursors",
	"requests of wild versions", "arguments that are numbers beyond all limits", "calls in calls",
	"searches of megabytes",
	"tokens of odd forms", "login with a body of 10 MB", "forged cookies", "streams resumed at wild events",
	"names of no server",
}

var longFiles = []string{
	"file of 100 MB", "100,000 arguments", "100,000 equal names", "100,000 problems", "lines of nothing",
	"patterns by the thousand",
}

// chosen returns the names of the cases of a run, sorted.
func chosen[T any](t *testing.T, all map[string]T, long []string) []string {
	t.Helper()
	for _, name := range long {
		if _, ok := all[name]; !ok {
			t.Errorf("no case is named %q", name)
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if os.Getenv(lastsVariable) == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(long, name) })
	}
	return names
}
