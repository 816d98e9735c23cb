package clients

import "github.com/mcp-metarouter/metarouter/config"

// readExpanded returns the value of a text, with variables expanded.
func readExpanded(path string, data []byte) (config.Config, error) {
	c, err := config.ReadText(path, data)
	return c.Expand(), err
}
