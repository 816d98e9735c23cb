package config

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	expect.OK(t, err)
	compiler := jsonschema.NewCompiler()
	expect.OK(t, compiler.AddResource(schemaURL, doc))
	compiled, err := compiler.Compile(schemaURL)
	expect.OK(t, err)
	expect.Equal[any](t, doc.(map[string]any)["$id"], schemaURL, "its $id")
	return compiled
}

// check validates text, which may have comments.
func checkSchema(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	plain, err := hujson.Standardize(text)
	expect.OK(t, err, "%s", text)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	expect.OK(t, err)
	return schema.Validate(doc)
}

// The examples for people are valid, and Load agrees.
func TestSchemaAcceptsExamples(t *testing.T) {
	schema := compileSchema(t)
	check := func(what string, text []byte) {
		expect.OK(t, checkSchema(t, schema, text), "%s", what)
		c, err := readExpanded("/x/.mcp.json", text)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, p := range c.Problems {
			if !strings.Contains(p.Message, "not set") && !strings.Contains(p.Message, "which is not a server") {
				t.Errorf("%s: %v", what, p)
			}
		}
	}
	for _, name := range []string{".mcp.json.example", "categories.example.json"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		expect.OK(t, err)
		check(name, text)
		// A line in a comment is an example too.
		var whole []string
		for line := range strings.Lines(string(text)) {
			if code, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "//"); ok && regexp.MustCompile(`^\s*["}\]]`).MatchString(code) {
				line = code
			}
			whole = append(whole, line)
		}
		check(name+" without comment marks", []byte(strings.Join(whole, "")))
		expect.Contains(t, string(text), `"$schema": "`+schemaURL+`"`, "%s does not name its schema", name)
	}
	pages, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	expect.OK(t, err)
	n := 0
	for _, page := range append(pages, filepath.Join("..", "README.md")) {
		text, err := os.ReadFile(page)
		expect.OK(t, err)
		for _, block := range regexp.MustCompile("(?s)```jsonc?\n(\\{.*?)```").FindAllStringSubmatch(string(text), -1) {
			if regexp.MustCompile(`"(mcpServers|metarouter)"\s*:\s*\{`).MatchString(block[1]) {
				check(page+":\n"+block[1], []byte(block[1]))
				n++
			}
		}
	}
	if n < 5 {
		t.Errorf("there are %d examples of a configuration in the documents", n)
	}
}

func TestSchemaRejects(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		`[]`, `{"mcpServers": []}`, `{"mcpServers": {"a": {}}}`, `{"mcpServers": {"a": {"command": 1}}}`, `{"mcpServers": {"a": {"command": "x", "args": "y"}}}`,
		`{"mcpServers": {"a": {"command": "x", "timeout": "5 minutes"}}}`, `{"mcpServers": {"a": {"command": "x", "retry": "maybe"}}}`, `{"mcpServers": {"a": {"command": "x", "timeout": 0}}}`, `{"mcpServers": {"a": {"url": "https://x", "credentials": "mine"}}}`,
		`{"metarouter": {"classification": {"server": " "}}}`,
		`{"mcpServers": {"a": {"command": "x", "tools": {"allowed": []}}}}`, `{"mcpServers": {"a": {"url": "http://x", "type": "ws"}}}`,
		`{"metarouter": {"mode": "all"}}`, `{"metarouter": {"moed": "auto"}}`, `{"metarouter": {"http": {"maxBody": "many"}}}`, `{"metarouter": {"http": {"rate": "fast"}}}`, `{"metarouter": {"gateway": {"name": ""}}}`, `{"metarouter": {"gateway": {"prefix": "g w"}}}`,
		`{"metarouter": {"routeThreshold": 2}}`, `{"metarouter": {"findThreshold": 0}}`, `{"metarouter": {"findThreshold": 1}}`, `{"metarouter": {"classification": {"categories": [{}]}}}`, `{"metarouter": {"classification": {"rules": [{}]}}}`,
		`{"metarouter": {"accessLog": {"arguments": true}}}`,
		`{"metarouter": {"profiles": []}}`, `{"metarouter": {"profiles": {"Work": {}}}}`, `{"metarouter": {"profiles": {"work": []}}}`, `{"metarouter": {"profiles": {"work": {"server": []}}}}`,
		`{"metarouter": {"profiles": {"work": {"ask": "sometimes"}}}}`, `{"metarouter": {"profiles": {"work": {"servers": "github"}}}}`, `{"metarouter": {"profiles": {"work": {"tools": {"exclude": []}}}}}`,
		`{"metarouter": {"cluster": []}}`, `{"metarouter": {"cluster": {"urls": []}}}`, `{"metarouter": {"cluster": {"name": "A"}}}`, `{"metarouter": {"cluster": {"trusted": ["x"]}}}`, `{"metarouter": {"cluster": {"tls": {"cafile": "x"}}}}`,
		`{"metarouter": {"profiles": {"work": {"arguments": {"*": "acme"}}}}}`, `{"mcpServers": {"a": {"command": "x", "trustHints": "yes"}}}`,
	} {
		if checkSchema(t, schema, []byte(text)) == nil {
			t.Errorf("valid: %s", text)
		}
	}
	for _, text := range []string{
		`{}`, `{"mcpServers": {"a": {"command": "x", "autoApprove": [], "timeout": 60, "tools": ["x"]}}, "other": 1}`, `{"a": {"command": "x"}}`,
		`{"context_servers": {"z": {"command": {"path": "x", "args": []}}}}`, `{"servers": {"v": {"type": "http", "url": "https://x"}}, "inputs": []}`,
		`{"metarouter": {"accessLog": "x", "http": {"maxBody": 5, "rate": ""}, "idleTimeout": 0}}`, `{"metarouter": {"accessLog": {"file": "x", "maxSize": "1MiB"}}}`,
		`{"metarouter": {"cluster": {"urls": "nats://h", "name": "${CLUSTER}", "node": "", "creds": "", "tls": {}, "share": [], "use": [], "trusted": []}}, "mcpServers": {"a": {"command": "x", "service": ""}}}`,
		`{"metarouter": {"profiles": {}}}`, `{"metarouter": {"profiles": {"work": {"servers": [], "tools": {"allow": [], "deny": ["x"], "ask": ["y"]}, "readOnly": true, "ask": "writes", "mode": "search", "pinned": [], "arguments": {"*": {"n": null}}}}}}`,
		`{"metarouter": {"profiles": {"a-1": {"ask": ["create_*"]}}}, "mcpServers": {"a": {"command": "x", "trustHints": true}}}`,
	} {
		expect.OK(t, checkSchema(t, schema, []byte(text)), "%s", text)
	}
}

// readers says where in the file the keys stand that each function of this package
// reads with a fields literal, or each struct has in its tags or its method decode.
var readers = map[string][]string{
	"entriesOf":      {"/"},
	"routerFields":   {"/metarouter/"},
	"Router":         {"/metarouter/"},
	"HTTP":           {"/metarouter/http/"},
	"entry":          {"/mcpServers/*/"},
	"entryKeys":      {"/mcpServers/*/"},
	"Server":         {"/mcpServers/*/"},
	"ToolFilter":     {"/mcpServers/*/tools/"},
	"AccessLog":      {"/metarouter/accessLog/"},
	"Audit":          {"/metarouter/audit/"},
	"Classification": {"/metarouter/classification/"},
	"Category":       {"/metarouter/classification/categories/*/"},
	"profile":        {"/metarouter/profiles/*/"},
	"Profile":        {"/metarouter/profiles/*/"},
	"OAuth":          {"/mcpServers/*/oauth/"},
	"Exchange":       {"/mcpServers/*/exchange/"},
	"Token":          {"/metarouter/http/tokens/*/"},
	"issuersField":   {"/metarouter/http/oauth/"},
	"Issuer":         {"/metarouter/http/oauth/issuers/*/"},
	"Certificate":    {"/metarouter/http/certificates/*/"},
	"Cluster":        {"/metarouter/cluster/"},
	"Rule":           {"/metarouter/classification/rules/*/", "/metarouter/classification/categories/*/rules/*/"},
}

// Every key that Load reads is in the schema, at its place, and every key of the schema
// is read. The keys come from the fields literals and from the tags in the source, so that one who
// adds a key can't forget the other.
func TestSchemaHasEveryKey(t *testing.T) {
	read := make(map[string]bool)
	for _, key := range roots {
		read["/"+key] = true
	}
	files, err := filepath.Glob("*.go")
	expect.OK(t, err)
	add := func(of string, keysAt func(place string) map[string]bool) {
		if readers[of] == nil && len(keysAt("")) > 0 {
			t.Errorf("%s reads %q; say in readers where in the file they stand", of, slices.Sorted(maps.Keys(keysAt(""))))
		}
		for _, place := range readers[of] {
			maps.Copy(read, keysAt(place))
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		expect.OK(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					add(n.Name.Name, func(place string) map[string]bool { return tagsOf(s, place) })
				}
			case *ast.FuncDecl:
				of := n.Name.Name
				if of == "decode" { // of a struct that has its other keys in tags
					of = n.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
				}
				for _, literal := range literals(n) {
					add(of, func(place string) map[string]bool { return keysOf(literal, place) })
				}
			}
			return true
		})
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	expect.OK(t, err)
	known := make(map[string]bool)
	properties(doc.(map[string]any), doc.(map[string]any), "/", known, t)
	for _, key := range slices.Sorted(maps.Keys(read)) {
		if !known[key] {
			t.Errorf("the schema lacks %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		elsewhere := key == "/$schema" || key == "/inputs" || strings.HasPrefix(key, "/servers/") || strings.HasPrefix(key, "/context_servers/")
		if !read[key] && !elsewhere {
			t.Errorf("the schema has %s, which is not read", key)
		}
	}
	if len(read) < 200 {
		t.Errorf("only %d keys are read", len(read))
	}
}

// tagsOf are the keys of the tags of a struct, and of structs in it.
func tagsOf(of *ast.StructType, place string) map[string]bool {
	keys := make(map[string]bool)
	for _, field := range of.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("key"), ",")
		for key := range strings.FieldsSeq(tag) {
			path := place
			for step := range strings.SplitSeq(key, ".") {
				path += step
				keys[path] = true
				path += "/"
			}
			if inner, ok := field.Type.(*ast.StructType); ok {
				maps.Copy(keys, tagsOf(inner, path))
			}
		}
	}
	return keys
}

// literals are the outermost fields literals in a node.
func literals(node ast.Node) (all []*ast.CompositeLit) {
	ast.Inspect(node, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if ok {
			if name, ok := literal.Type.(*ast.Ident); ok && name.Name == "fields" {
				all = append(all, literal)
				return false
			}
		}
		return true
	})
	return all
}

// keysOf are the keys of a literal and of those inside it.
func keysOf(literal *ast.CompositeLit, place string) map[string]bool {
	keys := make(map[string]bool)
	for _, element := range literal.Elts {
		pair := element.(*ast.KeyValueExpr)
		key, err := strconv.Unquote(pair.Key.(*ast.BasicLit).Value)
		if err != nil {
			panic(err)
		}
		keys[place+key] = true
		for _, inner := range literals(pair.Value) {
			maps.Copy(keys, keysOf(inner, place+key+"/"))
		}
	}
	return keys
}

// properties collects the keys that a schema names, and sees that each is described.
func properties(whole, s map[string]any, place string, known map[string]bool, t *testing.T) {
	if ref, ok := s["$ref"].(string); ok {
		properties(whole, whole["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), place, known, t)
	}
	for _, either := range asList(s["anyOf"]) {
		properties(whole, either.(map[string]any), place, known, t)
	}
	if inner, ok := s["properties"].(map[string]any); ok {
		for key, value := range inner {
			known[place+key] = true
			value := value.(map[string]any)
			if value["description"] == nil {
				t.Errorf("%s%s is not described", place, key)
			}
			properties(whole, value, place+key+"/", known, t)
		}
	}
	for _, each := range []string{"additionalProperties", "items"} {
		if inner, ok := s[each].(map[string]any); ok {
			properties(whole, inner, place+"*/", known, t)
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// The schema says of exactly those keys that an edit waits for the router's next start
// which RestartKeys reports.
func TestSchemaNamesRestartKeys(t *testing.T) {
	var doc map[string]any
	expect.OK(t, json.Unmarshal(Schema(), &doc))
	var said []string
	var look func(path string, schema map[string]any)
	look = func(path string, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for key, v := range properties {
			property, _ := v.(map[string]any)
			if text, _ := property["description"].(string); strings.Contains(text, "at the router's next start") {
				said = append(said, strings.TrimPrefix(path+key, "metarouter."))
			}
			look(path+key+".", property)
		}
	}
	look("", doc)
	slices.Sort(said)
	edited := Router{HTTP: HTTP{Addr: "127.0.0.1:1", ClientCA: "a", TLSCert: "c", TLSKey: "k", MaxHeader: 1}}
	expect.List(t, said, slices.Sorted(slices.Values(RestartKeys(Router{}, edited))), "the keys that the schema names, and those of an edit of all")
	edited = Router{Mode: "search", ToolBudget: 1, HTTP: HTTP{Tokens: []Token{plainToken("t")}}}
	if got := RestartKeys(Router{}, edited); got != nil {
		t.Errorf("live keys are reported: %q", got)
	}
}

// The documents name every key of the schema, and the defaults in docs/configuration.md are those
// of the schema.
func TestDocumentsHaveEveryKey(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		expect.OK(t, err)
		all.Write(text)
	}
	dialects := strings.Fields("path transport transportType httpUrl serverUrl enabled includeTools excludeTools disabledTools")
	for level, n := range table() {
		for _, key := range n.Keys {
			isOfDialect := level == atEntry && slices.Contains(dialects, key) || level == atEntry+".command" || strings.HasPrefix(level, "servers") || strings.HasPrefix(level, "context_servers")
			if !isOfDialect && !regexp.MustCompile("[\"`.|]"+regexp.QuoteMeta(key)+"[\"`:|]").MatchString(all.String()) {
				t.Errorf("the documents do not name %s", keys.Below(level, key))
			}
		}
	}
	_, section, _ := strings.Cut(all.String(), "## Which keys does the router have?\n\n```jsonc\n")
	block, _, _ := strings.Cut(section, "```")
	plain, err := hujson.Standardize([]byte(block))
	expect.OK(t, err)
	var said map[string]any
	expect.OK(t, json.Unmarshal(plain, &said))
	shown := 0
	var compare func(level string, value any)
	compare = func(level string, value any) {
		if object, ok := value.(map[string]any); ok && nodeAt(level).Default == nil {
			for key, inner := range object {
				compare(keys.Below(level, key), inner)
			}
			return
		}
		var want any
		if err := json.Unmarshal(nodeAt(level).Default, &want); err == nil && !reflect.DeepEqual(value, want) {
			t.Errorf("docs/configuration.md has %v for %s, whose default is %v", value, level, want)
		} else if err == nil {
			shown++
		}
	}
	compare(atRouter, said[atRouter])
	if shown < 30 {
		t.Errorf("docs/configuration.md shows only %d defaults", shown)
	}
}

// Editors show a description as a hover text, without its surroundings: each must be
// made of full sentences.
func TestSchemaDescriptionsAreSentences(t *testing.T) {
	var schema any
	expect.OK(t, json.Unmarshal(Schema(), &schema))
	all := descriptions("", schema)
	for place, text := range all {
		if !sentence.MatchString(text) || len(strings.Fields(text)) < 4 {
			t.Errorf("the description of %s is not a sentence that begins with a capital, ends with a period and has at least four words: %q", place, text)
		}
	}
	if len(all) < 100 {
		t.Errorf("there are only %d descriptions", len(all))
	}
}

var sentence = regexp.MustCompile(`^[A-Z].*\.$`)

// descriptions returns the texts under "description" in a schema, by their JSON pointers.
func descriptions(place string, value any) map[string]string {
	all := make(map[string]string)
	add := func(key string, inner any) {
		for k, v := range descriptions(place+"/"+key, inner) {
			all[k] = v
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, ok := inner.(string); ok && key == "description" {
				all[place] = text
			}
			add(key, inner)
		}
	case []any:
		for i, inner := range value {
			add(strconv.Itoa(i), inner)
		}
	}
	return all
}
