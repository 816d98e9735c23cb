package telemetry

import "github.com/mcp-metarouter/metarouter/config"

// A Mask hides what looks like a secret in texts that people are shown, as an access log
// does. The zero value knows no configuration.
type Mask struct{ mask mask }

// Learn has the secrets of a configuration hidden too, beside those of earlier ones.
func (m *Mask) Learn(c config.Config) { m.mask.learn(c) }

// Text returns a text with its secrets hidden.
func (m *Mask) Text(s string) string { return m.mask.text(s) }
