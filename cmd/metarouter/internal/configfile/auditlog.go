package configfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
)

// AuditOptions returns where a router records the acts of its administrators and principals. The
// File is "" if it does not: the configuration says false, or it names no file and the router
// has no data folder.
func AuditOptions(c config.Config, data string) audit.Options {
	a := c.Router.Audit
	o := audit.Options{File: a.File, MaxSize: a.MaxSize, MaxFiles: a.MaxFiles}
	switch {
	case a.Off:
		o.File = ""
	case a.File == "" && data != "":
		o.File = auditFile(data)
	}
	return o
}

// auditFile returns the audit log that is in the data folder if the configuration names no other.
func auditFile(data string) string { return filepath.Join(data, "audit.jsonl") }

// CheckAudit fails if the configuration names an audit log that can't be written.
func CheckAudit(c config.Config) error {
	if c.Router.Audit.Off || c.Router.Audit.File == "" {
		return nil
	}
	if err := audit.Check(AuditOptions(c, "")); err != nil {
		return fmt.Errorf("metarouter.audit: %w", err)
	}
	return nil
}

// VerifyAudit checks the lines of the log in file, and that it has the line with the hash head if that is
// not "".
func VerifyAudit(ctx context.Context, out *console.Console, file, head string) error {
	if head != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(head) {
		return console.Usage(errors.New("--head needs the whole hash of a line: 64 digits, as 'metarouter audit verify' prints it"))
	}
	report, err := audit.Verify(ctx, file, head)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf(`there is no audit log %s: a router with a data folder writes it, unless its configuration has "audit": false`, file)
	}
	if err != nil {
		return err
	}
	if report.Events == 0 {
		out.Say("%s has no event yet.", file)
		return nil
	}
	out.Say("%s from %s to %s in %s, intact; the last line has the hash %s", console.Counted(int(report.Events), "event"), report.First, report.Last, file, report.Hash)
	if head != "" {
		out.Say("%s after the line of --head.", console.Counted(int(report.After), "event"))
	}
	if report.Removed > 0 {
		out.Note("note: %s before the first one were in files that are no longer kept", console.Counted(int(report.Removed), "event"))
	}
	for _, gap := range report.Gaps {
		out.Note("note: %s", gap)
	}
	return nil
}
