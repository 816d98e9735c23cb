package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// guarded is a file in which every key of the schema that can restrict something does.
const guarded = `{
"mcpServers": {
	"files": {"command": "/x", "tools": {"allow": ["*_file"], "deny": ["write_*"], "rate": {"*": "1/m"}},
		"newTools": "hold", "trustHints": false, "inheritEnv": ["LANG"], "killStrays": true, "roots": false, "validate": "on", "retry": "never", "maxConcurrent": 1, "questionsPerMinute": 1},
	"gemini": {"command": "/x", "includeTools": ["*_file"], "excludeTools": ["write_*"], "disabledTools": ["delete_*"]},
	"copilot": {"command": "/x", "tools": ["read_file"]},
	"off": {"command": "/x", "disabled": true}, "not-on": {"command": "/x", "enabled": false}
},
"metarouter": {
	"validate": "on", "newTools": "hold", "routeThreshold": 1,
	"profiles": {
		"default": {"servers": ["files"], "tools": {"allow": ["*_file"], "deny": ["delete_*"], "ask": ["write_*"]}, "readOnly": true, "ask": "always",
			"mode": "search", "scripts": false, "pinned": [], "arguments": {"*": {"owner": "acme"}}},
		"work": {"readOnly": true, "scripts": false, "ask": ["*"], "arguments": {"files:*": {"owner": "acme"}}},
		"few": {"servers": ["gemini"], "tools": {"deny": ["delete_*"], "ask": ["*"]}}
	},
	"cluster": {"urls": ["tls://hub:4222"], "name": "office", "node": "laptop", "creds": "c", "tls": {"ca": "a", "cert": "b", "key": "k"},
		"share": ["files"], "use": ["gpu@box"], "trusted": ["UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"]},
	"http": {
		"addr": "127.0.0.1:1", "publicUrl": "https://r.example", "tlsCert": "c", "tlsKey": "k", "allowedHosts": ["a.example"], "allowedOrigins": ["https://a.example"],
		"tokens": [{"token": "0123456789abcdef", "name": "ci", "profile": "work", "rate": "1/m", "role": "use"},
			{"token": "fedcba9876543210", "name": "any", "rate": "1/m", "role": "use"}],
		"oauth": {"issuers": [{"url": "https://id.example", "audience": "a", "user": "email", "profiles": {"g=d": "work"}, "admins": ["g=ops"],
			"scopeMap": {"r": "mcp:read"}, "jwksUrl": "https://id.example/k", "clientId": "i", "clientSecret": "s", "introspect": false}]},
		"clientCA": "ca.pem", "certificates": {"CN=a": {"name": "a", "profile": "few", "role": "use", "rate": "1/m"}},
		"rate": "1/m", "maxBody": 1, "maxBodyMemory": 1, "maxHeader": 1, "maxConnections": 1, "maxSessions": 1, "sessionTimeout": "1s"
	}
}}`

// An object is a JSON object that may have a key twice.
type object []pair

type pair struct {
	key   string
	value any // an object, []any, or the value of package json for other values
}

func (o object) MarshalJSON() ([]byte, error) {
	var members []string
	for _, p := range o {
		value, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		members = append(members, fmt.Sprintf("%q: %s", p.key, value))
	}
	return []byte("{" + strings.Join(members, ", ") + "}"), nil
}

// objectOf parses a JSON value with objects.
func objectOf(d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			key, _ := d.Token()
			o = append(o, pair{key.(string), objectOf(d)})
		}
		d.Token()
		return o
	case json.Delim('['):
		a := []any{}
		for d.More() {
			a = append(a, objectOf(d))
		}
		d.Token()
		return a
	}
	return token
}

// changed returns v with the value at a path of indices changed.
func changed(v any, path []int, change func(any) any) any {
	if len(path) == 0 {
		return change(v)
	}
	switch v := v.(type) {
	case object:
		v = slices.Clone(v)
		v[path[0]].value = changed(v[path[0]].value, path[1:], change)
		return v
	case []any:
		v = slices.Clone(v)
		v[path[0]] = changed(v[path[0]], path[1:], change)
		return v
	}
	panic("no object")
}

// A spot is an object of the file.
type spot struct {
	level string
	path  []int
	at    object
}

// spots returns all objects of a value.
func spots(level string, path []int, v any) (all []spot) {
	path = slices.Clone(path)
	switch v := v.(type) {
	case object:
		all = append(all, spot{level, path, v})
		for i, p := range v {
			key := p.key
			if !knownAt(level, key) {
				key = "*"
			}
			all = append(all, spots(keys.Below(level, key), append(path, i), p.value)...)
		}
	case []any:
		for i, e := range v {
			all = append(all, spots(level, append(path, i), e)...)
		}
	}
	return all
}

// misspellings are spellings of a key that are near to it.
func misspellings(key string) (all []string) {
	var kebab, snake strings.Builder
	for _, r := range key {
		if strings.ToLower(string(r)) != string(r) {
			kebab.WriteByte('-')
			snake.WriteByte('_')
		}
		kebab.WriteString(strings.ToLower(string(r)))
		snake.WriteString(strings.ToLower(string(r)))
	}
	all = append(all, strings.ToUpper(key), strings.ToLower(key), strings.ToUpper(key[:1])+key[1:], kebab.String(), snake.String(), key+"s", key+"-", key[:1]+"-"+key[1:], "e"+key)
	for i := range key {
		all = append(all, key[:i]+key[i+1:], key[:i+1]+key[i:], key[:i]+"q"+key[i+1:])
		if i > 0 {
			all = append(all, key[:i-1]+key[i:i+1]+key[i-1:i]+key[i+1:])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// kinds returns the kinds of values, as [json] has them, that the schema allows for a key.
func kinds(level, key string) map[string]bool {
	all := make(map[string]bool)
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		panic(err)
	}
	var walk func(at string, n any)
	walk = func(at string, n any) {
		node, ok := n.(map[string]any)
		if !ok {
			return
		}
		if ref, ok := node["$ref"].(string); ok {
			walk(at, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")])
		}
		if any, ok := node["anyOf"].([]any); ok {
			for _, n := range any {
				walk(at, n)
			}
		}
		if at == keys.Below(level, key) {
			switch kind := node["type"].(type) {
			case string:
				all[kind] = true
			case []any:
				for _, k := range kind {
					all[k.(string)] = true
				}
			}
			if _, ok := node["enum"]; ok {
				all["string"] = true
			}
		}
		if properties, ok := node["properties"].(map[string]any); ok {
			for k, n := range properties {
				walk(keys.Below(at, k), n)
			}
		}
		walk(at, node["items"])
		walk(keys.Below(at, "*"), node["additionalProperties"])
	}
	walk("", root)
	return all
}

// mayMove reports whether a person might write a key of one object into the other: a setting of
// the router anywhere, others near their place.
func mayMove(from, to spot, key string) bool {
	switch setting := knownAt(atHTTP, key) || knownAt(atRouter, key); {
	case strings.HasPrefix(from.level, atEntry) && to.level == "":
		return false // other programs have such keys there
	case setting && (from.level == atHTTP || from.level == atRouter):
		return true
	case keys.Steps(from.level, to.level) > 2:
		return false
	}
	same := min(len(from.path), len(to.path), 3) // of an entry or a profile
	return slices.Equal(from.path[:same], to.path[:same]) || len(to.path) < 3
}

// A slip is a file with one mistake.
type slip struct{ what, text string }

// slipsOf returns the slips of all keys of the file.
func slipsOf(t *testing.T) (slips []slip) {
	t.Helper()
	root := objectOf(json.NewDecoder(strings.NewReader(guarded)))
	all := spots("", nil, root)
	for _, s := range all {
		for i, p := range s.at {
			key := p.key
			if !knownAt(s.level, key) {
				key = "*"
			}
			add := func(how string, change func(object) object) {
				value := changed(root, s.path, func(v any) any { return change(slices.Clone(v.(object))) })
				text, err := json.Marshal(value)
				expect.OK(t, err)
				slips = append(slips, slip{keys.Below(s.level, p.key) + " " + how, string(text)})
			}
			put := func(how string, v any) {
				add(how, func(o object) object { o[i].value = v; return o })
			}
			known := knownAt(s.level, p.key) || p.key == DefaultProfile
			allowed := kinds(s.level, key)
			for kind, values := range map[string][]any{
				"null": {nil}, "boolean": {true, false}, "integer": {json.Number("7")}, "string": {"", "x"}, "object": {object{}, object{{"x", "y"}}, object{p}},
				"array": {[]any{}, []any{"x"}, []any{p.value}},
			} {
				if len(allowed) > 0 && !allowed[kind] && !(kind == "integer" && allowed["number"]) {
					for _, v := range values {
						put(fmt.Sprint("is ", v), v)
					}
				}
			}
			if allowed["array"] {
				put("has a number", []any{json.Number("7")})
				put("has null", []any{nil})
			}
			for _, other := range []any{p.value, nil, true, false, json.Number("1000000"), "", "off", "100/s", []any{}, []any{"*"}, object{}} {
				add(fmt.Sprint("before ", other), func(o object) object { return slices.Insert(o, i+1, pair{p.key, other}) })
				add(fmt.Sprint("after ", other), func(o object) object { return slices.Insert(o, i, pair{p.key, other}) })
			}
			if !known {
				continue
			}
			for _, spelling := range misspellings(p.key) {
				if !knownAt(s.level, spelling) && spelling != p.key && !table().IsForeign(atEntry, spelling, false) {
					add("as "+spelling, func(o object) object { o[i].key = spelling; return o })
				}
			}
			for _, to := range all {
				_, isObject := p.value.(object)
				free := strings.HasPrefix(to.level, atProfile+".arguments") || to.level == atTools+".rate" || to.level == atTools && isObject ||
					strings.HasPrefix(to.level, atIssuers+".issuers.") || to.level == "" && table().IsForeign("", p.key, false) // any key may be there
				within := len(to.path) > len(s.path) && slices.Equal(to.path[:len(s.path)], s.path) && to.path[len(s.path)] == i
				if knownAt(to.level, p.key) || free || within || !mayMove(s, to, p.key) {
					continue
				}
				// First to, since its place does not change, then away.
				value := changed(root, to.path, func(v any) any { return append(slices.Clone(v.(object)), p) })
				value = changed(value, s.path, func(v any) any {
					o := slices.Clone(v.(object))
					return slices.Delete(o, i, i+1)
				})
				if len(to.path) > len(s.path) && slices.Equal(to.path[:len(s.path)], s.path) && to.path[len(s.path)] > i {
					continue // it is done from the other side
				}
				text, err := json.Marshal(value)
				expect.OK(t, err)
				slips = append(slips, slip{fmt.Sprintf("%s in %s", keys.Below(s.level, p.key), to.level), string(text)})
			}
		}
	}
	return slips
}

// permissions returns the things that a configuration allows, and how much.
func permissions(c Config) map[string]float64 {
	all := make(map[string]float64)
	unlimited := func(r Rate) float64 {
		if r == (Rate{}) {
			return math.Inf(1)
		}
		return r.PerSecond * float64(r.Burst)
	}
	r, h := c.Router, c.Router.HTTP
	use := func(who, profile string, role string, rate Rate) {
		chosen := []string{profile}
		if profile == "" { // it may choose any by its URL
			chosen = append(slices.Collect(maps.Keys(r.Profiles)), DefaultProfile)
		}
		if role == roleAdmin {
			all[who+" is an admin"] = 1
		}
		if all[who+" comes in"] = unlimited(h.Rate); rate != (Rate{}) {
			all[who+" comes in"] = unlimited(rate)
		}
		for _, name := range chosen {
			p, ok := r.Profiles[name]
			if !ok && profile != "" {
				continue // it sees nothing
			}
			if p.Scripts == nil || *p.Scripts {
				all[who+" runs scripts"] = 1
			}
			for _, s := range c.Servers {
				for _, tool := range []string{"read_file", "write_file", "delete_file", "other"} {
					id := s.Name + ":" + tool
					amount := 3.0
					if p.Ask != "" && p.Ask != "never" || slices.ContainsFunc(p.AskFor, func(of string) bool { return matches(of, tool, id) }) {
						amount = 2
					}
					for of, fixed := range p.Arguments {
						if matches(of, tool, id) && fixed["owner"] != nil {
							amount -= 0.5
						}
					}
					if profileOf(s).allows(s.Name, tool) && p.allows(s.Name, tool) && (!p.ReadOnly || tool == "read_file") && s.Misconfigured == "" && !s.Disabled {
						all[who+" calls "+id] = max(all[who+" calls "+id], amount)
					}
				}
			}
		}
	}
	if h.isPublic() {
		use("anyone", "", roleAdmin, Rate{})
	}
	for _, t := range h.Tokens {
		if t.Hash != "" {
			use("token "+t.Hash, t.Profile, t.Role, t.Rate)
		}
	}
	for _, i := range h.Issuers {
		if i.URL == "" || h.PublicURL == "" {
			continue
		}
		who := fmt.Sprint(i.URL, i.Audience, i.User, i.Scopes, i.KeysURL, i.Introspect)
		for _, rule := range i.Profiles {
			if _, ok := r.Profiles[rule.Profile]; ok {
				use(fmt.Sprint(who, rule), rule.Profile, roleUse, Rate{})
			}
		}
		for _, admin := range i.Admins {
			all[fmt.Sprint(who, admin, " is an admin")] = 1
		}
	}
	for _, k := range h.Certificates {
		if k.Name != "" && k.Attributes != nil && filepath.Base(h.ClientCA) == "ca.pem" {
			use("certificate "+k.Subject, k.Profile, k.Role, k.Rate)
		}
	}
	for _, host := range append(h.AllowedHosts, h.AllowedOrigins...) {
		all["host "+host] = 1
	}
	if h.TLSCert == "" {
		all["no TLS"] = 1
	}
	for what, amount := range map[string]float64{
		"maxBody": float64(h.MaxBody), "maxBodyMemory": float64(h.MaxBodyMemory), "maxHeader": float64(h.MaxHeader),
		"maxConnections": float64(h.MaxConnections), "maxSessions": float64(h.MaxSessions), "sessionTimeout": h.SessionTimeout.Seconds(),
		"routeThreshold": 1 - r.RouteThreshold,
	} {
		all[what] = amount
	}
	for _, s := range c.Servers {
		if s.Misconfigured != "" || s.Disabled {
			continue
		}
		all[s.Name+" runs"] = 1
		all[s.Name+" asks"], all[s.Name+" works"] = float64(s.QuestionsPerMinute), float64(s.MaxConcurrent)
		if all[s.Name+" has a rate"] = math.Inf(1); len(s.ToolRates) > 0 {
			all[s.Name+" has a rate"] = unlimited(s.ToolRates["*"])
		}
		for what, open := range map[string]bool{"trusted": s.TrustHints, "shown at once": s.NewTools != "hold", "not validated": s.Validate != "on", "repeated": s.Retry != "never", "left": s.KeepStrays} {
			if open {
				all[s.Name+" is "+what] = 1
			}
		}
		for _, name := range s.InheritEnv {
			all[s.Name+" gets "+name] = 1
		}
	}
	if k := r.Cluster; k != nil {
		who := fmt.Sprint("cluster ", k.URLs, k.Name, k.Creds, k.TLS)
		all[who] = 1
		for _, one := range slices.Concat(k.Share, k.Use, k.Trusted) {
			all[who+one] = 1
		}
	}
	return all
}

// allows reports whether the profile allows a tool, apart from ReadOnly.
func (p Profile) allows(server, tool string) bool {
	among := func(patterns []string, name, id string) bool {
		return slices.ContainsFunc(patterns, func(of string) bool { return matches(of, name, id) })
	}
	id := server + ":" + tool
	return (p.Servers == nil || among(p.Servers, server, server)) && !among(p.Deny, tool, id) && (len(p.Allow) == 0 || among(p.Allow, tool, id))
}

// profileOf is the filter of a server as a profile.
func profileOf(s Server) Profile { return Profile{Allow: s.Tools.Allow, Deny: s.Tools.Deny} }

func matches(pattern, name, id string) bool {
	p, err := glob.Parse(pattern)
	return err == nil && (glob.Item{Name: name, ID: id}).Matches(p)
}

// more returns the permissions that after has and before lacks, "" if it has no more.
func more(before, after map[string]float64) string {
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if after[what] > before[what] {
			return fmt.Sprintf("%s: %g instead of %g", what, after[what], before[what])
		}
	}
	return ""
}

// A mistake about a key never allows more than the file without it, neither at the start
// nor in a file that is edited.
func TestSlips(t *testing.T) {
	slips := slipsOf(t)
	path := filepath.Join(t.TempDir(), ".mcp.json")
	write(t, path, guarded)
	strict, err := Load(path)
	if err != nil || len(strict.Problems) > 0 {
		t.Fatal(err, strict.Problems)
	}
	before := permissions(strict)
	if len(before) < 40 {
		t.Fatalf("the file allows too little to lose: %v", before)
	}

	refused, failed := 0, 0
	for i, s := range slips {
		if testing.Short() && i%23 > 0 {
			continue
		}
		write(t, path, s.text)
		start, err := Load(path)
		if err != nil {
			if problem, ok := errors.AsType[Problem](err); !ok || problem.Line == 0 || problem.Column == 0 {
				t.Errorf("%s: %v", s.what, err)
			}
			refused++
		} else if wrong := more(before, permissions(start)); wrong != "" {
			failed++
			t.Errorf("at the start, %s: %s", s.what, wrong)
		}
		text, unusable := LoadText(path) // as package reload reads it
		if (err != nil) != (unusable != nil) {
			t.Errorf("live the text is refused because of %v, at the start of %v", unusable, err)
		} else if err != nil {
			continue // the file before stays in use
		}
		expanded, err := text.Expand()
		if err != nil {
			continue
		}
		if wrong := more(before, permissions(expanded)); wrong != "" {
			failed++
			t.Errorf("live, %s: %s", s.what, wrong)
		}
	}
	t.Logf("%d slips, at the start and live; %d files were refused, %d slips allowed more", len(slips), refused, failed)
	if len(slips) < 5000 {
		t.Errorf("only %d slips were tried", len(slips))
	}
}
