// Package trust shows a person what a configuration says, and asks whether it may be used.
// A configuration that was found and not named runs commands of other people, so that it
// must be approved first. Package config keeps the approvals.
package trust

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// Ask shows on out what c says, which is a text of [config.LoadText], and reads from in
// whether to use it. The error is ctx's. If ctx ends first, a goroutine goes on reading from
// in: the program must end then.
func Ask(ctx context.Context, in io.Reader, out io.Writer, c config.Config) (yes bool, err error) {
	fmt.Fprintf(out, "%s is not approved, or changed since you approved it. It says:\n%sUse it? [y/N] ", Quote(c.Files[0]), Describe(c))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
