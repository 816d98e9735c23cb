package config

import _ "embed"

// SchemaURL is where the schema is published: the "$schema" of a file.
const SchemaURL = "https://raw.githubusercontent.com/mcp-metarouter/metarouter/main/config/schema.json"

//go:embed schema.json
var schema string

// Schema is the JSON Schema (draft 2020-12) of the file, for editors: what each key
// means, and which values it takes. It is looser than Load where dialects are.
func Schema() []byte { return []byte(schema) }
