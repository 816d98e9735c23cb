package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A dialect turns the keys of a client's entry into ours.
type dialect func(entry map[string]any, note func(format string, args ...any))

// order lists the keys of a translated entry in their order. Others come last.
var order = []string{"type", "command", "args", "env", "inheritEnv", "cwd", "url", "headers", "oauth", "enabled", "disabled", "startTimeout", "timeout", "includeTools", "disabledTools"}

// translate returns an entry, which is plain JSON, in our dialect.
func (f dialect) translate(d *document, to *converted) (*document, error) {
	if f == nil {
		return d, nil
	}
	var entry map[string]any
	numbers := json.NewDecoder(bytes.NewReader(d.bytes()))
	numbers.UseNumber()
	if err := numbers.Decode(&entry); err != nil {
		return nil, err
	}
	f(entry, to.note)
	var all fields
	for _, key := range slices.Concat(order, slices.Sorted(maps.Keys(entry))) {
		if value, ok := entry[key]; ok {
			all = append(all, field{key, value})
			delete(entry, key)
		}
	}
	return open(d.path, []byte(alone.write(all)))
}

// rename gives values the keys that we have for them, unless the entry has these too. Each name is
// their key, ours, and the unit with which a number becomes a duration.
func rename(entry map[string]any, names ...string) {
	for _, name := range names {
		words := append(strings.Fields(name), "")
		value, ok := entry[words[0]]
		delete(entry, words[0])
		if n, isNumber := value.(json.Number); isNumber && words[2] != "" {
			value = n.String() + words[2]
		}
		if _, taken := entry[words[1]]; ok && !taken {
			entry[words[1]] = value
		}
	}
}

// put puts a value into the object under a key.
func put(entry map[string]any, key, name string, value any) {
	o, ok := entry[key].(map[string]any)
	if !ok {
		o = make(map[string]any)
		entry[key] = o
	}
	if _, there := o[name]; !there {
		o[name] = value
	}
}

// onlyCodex are the keys that have no counterpart. "tools" is the approval of each; ours has another meaning.
var onlyCodex = []string{"tools", "bearer_token", "required", "default_tools_approval_mode", "supports_parallel_tool_calls", "oauth_resource", "auth", "experimental_environment", "environment_id"}

func opencode(entry map[string]any, _ func(string, ...any)) {
	if words, ok := entry["command"].([]any); ok && len(words) > 0 {
		args, _ := entry["args"].([]any)
		entry["command"], entry["args"] = words[0], append(words[1:len(words):len(words)], args...)
		if len(entry["args"].([]any)) == 0 {
			delete(entry, "args")
		}
	}
	delete(entry, "type") // "local" and "remote" say no more than "command" and "url"
	times, ok := entry["timeout"].(map[string]any)
	if !ok {
		times = map[string]any{"startup": entry["timeout"]}
	}
	delete(entry, "timeout")
	rename(times, "startup startTimeout ms", "request timeout ms")
	for _, key := range []string{"startTimeout", "timeout"} {
		if times[key] != nil {
			entry[key] = times[key]
		}
	}
	rename(entry, "environment env")
	switch login := entry["oauth"].(type) {
	case map[string]any:
		rename(login, "client_id clientId", "client_secret clientSecret")
	case bool:
		delete(entry, "oauth")
	}
}

func codex(entry map[string]any, note func(string, ...any)) {
	rename(entry, "http_headers headers", "startup_timeout_sec startTimeout s", "startup_timeout_ms startTimeout ms", "tool_timeout_sec timeout s")
	if variables, ok := entry["env_http_headers"].(map[string]any); ok {
		for header, name := range variables {
			put(entry, "headers", header, fmt.Sprintf("${%v}", name))
		}
		delete(entry, "env_http_headers")
	}
	if name, ok := entry["bearer_token_env_var"].(string); ok {
		put(entry, "headers", "Authorization", "Bearer ${"+name+"}")
		delete(entry, "bearer_token_env_var")
	}
	if names, ok := entry["env_vars"].([]any); ok {
		var inherited []any
		for _, name := range names {
			if o, ok := name.(map[string]any); ok {
				name = o["name"]
			}
			inherited = append(inherited, name)
		}
		entry["inheritEnv"] = inherited
		delete(entry, "env_vars")
	}
	if none, ok := entry["enabled_tools"].([]any); ok && len(none) == 0 {
		delete(entry, "enabled_tools")
		delete(entry, "disabled_tools")
		entry["disabledTools"] = []any{"*"} // an empty list of ours allows all
	}
	rename(entry, "enabled_tools includeTools", "disabled_tools disabledTools")
	if scopes, ok := entry["scopes"]; ok {
		put(entry, "oauth", "scopes", scopes)
		delete(entry, "scopes")
	}
	for _, key := range onlyCodex {
		if _, ok := entry[key]; ok {
			delete(entry, key)
			note("has %q, which only Codex reads; it is left out", key)
		}
	}
}
