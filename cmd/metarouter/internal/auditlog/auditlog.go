// Package auditlog says where a router keeps its audit log, and shows it. Package audit writes and
// reads the log.
package auditlog

import (
	"fmt"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

// Options returns where a router records what its administrators and principals do. The
// File is "" if it does not: the configuration says false, or it names no file and the router
// serves no clients over HTTP or has no data folder.
func Options(c config.Config, data string, overHTTP bool) audit.Options {
	a := c.Router.Audit
	o := audit.Options{File: a.File, MaxSize: a.MaxSize, MaxFiles: a.MaxFiles}
	switch {
	case a.Off:
		o.File = ""
	case a.File == "" && overHTTP && data != "":
		o.File = File(data)
	}
	return o
}

// File returns the audit log that is in the data folder if the configuration names no other.
func File(data string) string { return filepath.Join(data, "audit.jsonl") }

// Check fails if the configuration names an audit log that can't be written.
func Check(c config.Config) error {
	if c.Router.Audit.Off || c.Router.Audit.File == "" {
		return nil
	}
	if err := audit.Check(Options(c, "", false)); err != nil {
		return fmt.Errorf("metarouter.audit: %w", err)
	}
	return nil
}
