package analysis

import (
	"maps"
	"slices"
)

// maxTakesDepth is how deep below its top level a schema is searched for the values that
// a tool takes.
const maxTakesDepth = 1

// Takes returns the types of the values that a decoded schema's parameters take, and of those that
// it requires. A parameter tells by its format, its name or its JSON type.
func Takes(schema any) (all, required Types) { return takes(schema, 0) }

func takes(schema any, depth int) (all, required Types) {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	needs := make(map[string]bool)
	names, _ := object["required"].([]any)
	for _, name := range names {
		if name, ok := name.(string); ok {
			needs[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		types := parameterTypes(name, property)
		all |= types
		if needs[name] {
			required |= types
		}
		for _, nested := range []any{property, property["items"]} {
			if depth < maxTakesDepth {
				more, _ := takes(nested, depth+1)
				all |= more
			}
		}
	}
	return all, required
}

// parameterTypes returns the types of values that one parameter takes.
func parameterTypes(name string, property map[string]any) (types Types) {
	if items, ok := property["items"].(map[string]any); ok && property["type"] == "array" {
		property = items
	}
	kind, _ := property["type"].(string)
	format, _ := property["format"].(string)
	if t, ok := formatType(format); ok {
		return types.With(t)
	}
	if kind == "boolean" {
		return 0
	}
	for _, word := range split(name) {
		types |= wordTypes(word)
	}
	if property["enum"] != nil {
		types &^= Types(0).With(CommandType)
	}
	if (kind == "integer" || kind == "number") && types&^Types(0).With(NameType).With(QuotedType) == 0 && !isPaging(name) {
		types = types.With(NumberType)
	}
	return types
}

// formatType returns the type of values of a JSON schema's format.
func formatType(format string) (t Type, ok bool) {
	switch format {
	case "uri", "url", "uri-reference", "iri":
		return URLType, true
	case "email", "idn-email":
		return EmailType, true
	case "date", "date-time", "time":
		return DateType, true
	case "hostname", "ipv4", "ipv6":
		return HostType, true
	case "uuid":
		return IDType, true
	case "path", "file-path", "directory-path":
		return PathType, true
	}
	return 0, false
}

// wordTypes returns the types of values that a parameter takes which has the word in its
// name.
func wordTypes(word string) (types Types) {
	switch word {
	case "url", "urls", "uri", "uris", "link", "links", "href", "website", "webpage", "endpoint", "webhook":
		return types.With(URLType)
	case "host", "hostname", "domain", "domains", "ip", "address", "server":
		return types.With(HostType)
	case "path", "paths", "file", "files", "filename", "filepath", "directory", "dir", "folder", "cwd", "source", "destination", "src", "dest":
		return types.With(PathType)
	case "date", "dates", "time", "datetime", "since", "until", "before", "after", "start", "end", "due", "day", "deadline", "timestamp", "from", "month", "year", "schedule":
		return types.With(DateType)
	case "email", "emails", "mail", "recipient", "recipients", "to", "cc", "bcc", "attendees":
		return types.With(EmailType)
	case "id", "ids", "uuid", "guid", "sha", "hash", "ref", "commit", "sid", "number", "key", "issue", "ticket":
		return types.With(IDType)
	case "user", "users", "username", "assignee", "assignees", "login", "member", "members", "author", "owner":
		return types.With(UserType).With(NameType)
	case "channel", "channels":
		return types.With(ChannelType)
	case "name", "names", "company", "person", "city", "location", "place", "country", "repo", "repository", "org", "organization", "project", "label", "labels", "tag", "tags", "team", "branch":
		return types.With(NameType)
	case "command", "commands", "cmd", "shell":
		return types.With(CommandType).With(CodeType)
	case "sql", "statement", "statements", "soql", "pipeline", "filter", "jql", "kql", "cypher":
		return types.With(QueryType)
	case "query", "queries", "q", "search":
		return types.With(QueryType).With(QuotedType)
	case "selector", "selectors", "css", "xpath", "element", "locator":
		return types.With(SelectorType)
	case "code", "script", "expression", "function", "snippet", "javascript", "formula":
		return types.With(CodeType)
	case "text", "content", "contents", "body", "message", "title", "comment", "subject", "prompt", "description", "value", "note", "summary", "phrase":
		return types.With(QuotedType)
	case "env", "environment", "variable", "variables":
		return types.With(VariableType)
	}
	return 0
}

// isPaging reports whether a parameter only says how much of an answer is wanted.
func isPaging(name string) bool {
	for _, word := range split(name) {
		switch word {
		case "limit", "offset", "page", "per", "size", "timeout", "max", "min", "count", "top", "skip", "first", "last", "depth":
			return true
		}
	}
	return false
}
