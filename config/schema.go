package config

import (
	_ "embed"
	"sync"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
)

//go:embed schema.json
var schema string

// Schema is the JSON Schema (draft 2020-12) of the file, for editors: the meaning of
// each key, and the values that it takes. It is looser than Load where dialects are.
func Schema() []byte { return []byte(schema) }

// table has the keys of the schema.
var table = sync.OnceValue(func() keys.Table { return keys.Read([]byte(schema)) })

func nodeAt(level string) *keys.Node { return table().At(level) }

// knownAt reports whether a key may stand at a level.
func knownAt(level, key string) bool { return table().Knows(level, key) }
