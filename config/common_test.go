package config

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// schemaURL is the "$id" of the schema.
var schemaURL = func() string {
	var root struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		panic(err)
	}
	return root.ID
}()

// readExpanded returns the value of a text, with variables expanded.
func readExpanded(path string, data []byte) (Config, error) { return read(path, data, system()) }

// plainToken returns the token of an element of "tokens" that is a string.
func plainToken(text string) Token {
	t := Token{Role: roleAdmin, Plain: true}
	t.Hash, t.Text, _ = secret.ParseToken(text)
	return t
}
