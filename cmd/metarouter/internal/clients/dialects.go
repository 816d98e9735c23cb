package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A dialect turns the keys of a client's entry into ours.
type dialect func(entry map[string]any, note func(format string, args ...any))

// order is that of the keys in a translated entry. Others come last.
var order = []string{"type", "command", "args", "env", "inheritEnv", "cwd", "url", "headers", "oauth", "enabled", "disabled", "startTimeout", "timeout", "includeTools", "disabledTools"}

// translate returns an entry in our dialect. indentation is as in a file of its own.
func (f dialect) translate(d *document, to *converted) (*document, error) {
	if f == nil {
		return d, nil
	}
	text := d.bytes()
	plain, err := hujson.Standardize(slices.Clone(text))
	if err != nil {
		return nil, err
	}
	if string(plain) != string(text) {
		to.note("has comments or trailing commas, which are left out")
	}
	var entry map[string]any
	numbers := json.NewDecoder(strings.NewReader(string(plain)))
	numbers.UseNumber()
	if err := numbers.Decode(&entry); err != nil {
		return nil, err
	}
	f(entry, to.note)
	var all []field
	for _, key := range slices.Concat(order, slices.Sorted(maps.Keys(entry))) {
		if value, ok := entry[key]; ok {
			all = append(all, field{key, valueOf(value)})
			delete(entry, key)
		}
	}
	to.unit = "  "
	return open(d.path, []byte(fields(all...)(&document{newline: "\n", unit: to.unit, spaced: true}, "")))
}

// valueOf is a value of JSON, with arrays in one line.
func valueOf(v any) func(*document, string) string {
	return func(d *document, indent string) string {
		switch v := v.(type) {
		case map[string]any:
			var all []field
			for _, key := range slices.Sorted(maps.Keys(v)) {
				all = append(all, field{key, valueOf(v[key])})
			}
			return fields(all...)(d, indent)
		case []any:
			var all []string
			for _, e := range v {
				all = append(all, valueOf(e)(&document{compact: true, spaced: true}, ""))
			}
			return "[" + strings.Join(all, ", ") + "]"
		case json.Number:
			return v.String()
		case nil:
			return "null"
		case bool:
			return fmt.Sprint(v)
		}
		return quoted(fmt.Sprint(v))
	}
}

// rename gives a value another key, unless the entry has the other one.
func rename(entry map[string]any, from, to string) {
	value, ok := entry[from]
	if _, taken := entry[to]; ok && !taken {
		entry[to] = value
	}
	delete(entry, from)
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

// last gives a number the key of a duration, with its unit.
func last(entry map[string]any, from, to, unit string) {
	if n, ok := entry[from].(json.Number); ok {
		delete(entry, from)
		entry[to] = n.String() + unit
	} else {
		rename(entry, from, to)
	}
}

// leaveOut deletes keys that have no counterpart, and says which.
func leaveOut(entry map[string]any, client string, note func(string, ...any), keys ...string) {
	for _, key := range keys {
		if _, ok := entry[key]; ok {
			delete(entry, key)
			note("has %q, which only %s reads; it is left out", key, client)
		}
	}
}

func opencode(entry map[string]any, _ func(string, ...any)) {
	if words, ok := entry["command"].([]any); ok && len(words) > 0 {
		args, _ := entry["args"].([]any)
		entry["command"], entry["args"] = words[0], append(words[1:len(words):len(words)], args...)
		if len(entry["args"].([]any)) == 0 {
			delete(entry, "args")
		}
	}
	rename(entry, "environment", "env")
	delete(entry, "type") // "local" and "remote" say no more than "command" and "url"
	if both, ok := entry["timeout"].(map[string]any); ok {
		delete(entry, "timeout")
		maps.Copy(entry, map[string]any{"startup": both["startup"], "request": both["request"]})
		last(entry, "request", "timeout", "ms")
		last(entry, "startup", "startTimeout", "ms")
		maps.DeleteFunc(entry, func(_ string, v any) bool { return v == nil })
	} else {
		last(entry, "timeout", "startTimeout", "ms")
	}
	switch login := entry["oauth"].(type) {
	case map[string]any:
		rename(login, "client_id", "clientId")
		rename(login, "client_secret", "clientSecret")
	case bool:
		delete(entry, "oauth")
	}
}

func codex(entry map[string]any, note func(string, ...any)) {
	rename(entry, "http_headers", "headers")
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
	last(entry, "startup_timeout_ms", "startTimeout", "ms")
	last(entry, "startup_timeout_sec", "startTimeout", "s")
	last(entry, "tool_timeout_sec", "timeout", "s")
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
	leaveOut(entry, "Codex", note, "tools") // the approval of each; ours has another meaning
	if none, ok := entry["enabled_tools"].([]any); ok && len(none) == 0 {
		delete(entry, "enabled_tools")
		entry["disabledTools"] = []any{"*"} // an empty list of ours allows all
	} else {
		rename(entry, "enabled_tools", "includeTools")
		rename(entry, "disabled_tools", "disabledTools")
	}
	delete(entry, "disabled_tools")
	if scopes, ok := entry["scopes"]; ok {
		put(entry, "oauth", "scopes", scopes)
		delete(entry, "scopes")
	}
	leaveOut(entry, "Codex", note, "bearer_token", "required", "default_tools_approval_mode", "supports_parallel_tool_calls", "oauth_resource", "auth", "experimental_environment", "environment_id")
}

func goose(entry map[string]any, note func(string, ...any)) {
	if inner, ok := entry["config"].(map[string]any); ok { // as older versions write it
		delete(entry, "config")
		maps.Copy(entry, inner)
	}
	rename(entry, "cmd", "command")
	rename(entry, "envs", "env")
	rename(entry, "uri", "url")
	if entry["type"] == "stdio" {
		delete(entry, "type")
	}
	if keys, ok := entry["env_keys"].([]any); ok {
		for _, key := range keys {
			name, _ := key.(string)
			if env, _ := entry["env"].(map[string]any); name != "" && env[name] == nil {
				put(entry, "env", name, "${"+name+"}")
				note("gets %s from the secrets of Goose: set the variable %[1]s, or run: metarouter secret set %[1]s, and write \"${keyring:%[1]s}\" in its place", name)
			}
		}
		delete(entry, "env_keys")
	}
	last(entry, "timeout", "timeout", "s")
	if names, ok := entry["available_tools"].([]any); ok && len(names) > 0 {
		entry["includeTools"] = names
	}
	for _, key := range []string{"available_tools", "name", "display_name", "description", "bundled"} {
		delete(entry, key)
	}
	for _, key := range []string{"args", "env", "headers"} {
		switch v := entry[key].(type) {
		case []any:
			if len(v) == 0 {
				delete(entry, key)
			}
		case map[string]any:
			if len(v) == 0 {
				delete(entry, key)
			}
		}
	}
}

// isPart reports whether an entry is a part of its client, which others can't start: a built-in
// extension of Goose or Zed, or what opencode changes of an entry of the organization.
func isPart(entry *hujson.Value) bool {
	if inner := member(entry, "config"); inner != nil {
		entry = &inner.Value
	}
	return object(entry) != nil && !slices.ContainsFunc([]string{"command", "cmd", "url", "uri"}, func(key string) bool { return member(entry, key) != nil })
}
