package manual

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/spf13/cobra"
)

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                         "plain",
		".mcp.json is read.":            `\&.mcp.json is read.`,
		"'quoted'\n\nC:\\dir with --x":  "\\&'quoted'\n.PP\nC:\\edir with \\-\\-x",
		"a line\n.hidden and\n  a list": "a line\n\\&.hidden and\n  a list",
	} {
		expect.Equal(t, roff(text), want, "%q", text)
	}
}

func TestManualPage(t *testing.T) {
	root := &cobra.Command{Use: "metarouter", Short: "A router"}
	cmd := &cobra.Command{Use: "serve DIR", Short: "Serve", Long: "Serves a client.", Example: "  metarouter serve --http :1", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(cmd, &cobra.Command{Use: "guard", Hidden: true, Run: func(*cobra.Command, []string) {}})
	cmd.Flags().StringP("http", "H", "", "Listen on this `address`.")
	cmd.Flags().Int("limit", 7, "Show so many.")
	cmd.Flags().Bool("old", false, "Gone.")
	expect.OK(t, cmd.Flags().MarkHidden("old"))
	page := manualPage(cmd, "Jan 2026")
	for _, want := range []string{
		"metarouter-serve \\- Serve\n", ".SH DESCRIPTION\nServes a client.\n",
		".TP\n\\fB\\-H\\fR, \\fB\\-\\-http\\fR=\\fIaddress\\fR\nListen on this address.\n",
		"\\fB\\-\\-limit\\fR=\\fIint\\fR\nShow so many.\nThe default is 7.\n",
		".EX\n  metarouter serve \\-\\-http :1\n.EE\n", "\\fBmetarouter\\fR(1)\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "Gone") || strings.Contains(manualPage(root, "Jan 2026"), "guard") {
		t.Error("the manual shows what is hidden")
	}
}
