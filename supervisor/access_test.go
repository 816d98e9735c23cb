package supervisor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The secrets of "http" are read again each time, from files and commands.
func TestWithSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the command is for sh")
	}
	folder := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(folder, "mcp.json"), []byte(`{"metarouter": {"profiles": {"p": {}}, "http": {"publicUrl": "https://r.example", "tokens": [
		{"token": "${file:token}", "name": "file"}, {"token": "${cmd:cat token; echo; echo no}", "name": "lines"}, {"token": "${cmd:exit 3}", "name": "failing"}],
		"oauth": {"issuers": [{"url": "https://id.example", "profiles": {"*": "p"}, "clientId": "me", "clientSecret": "${cmd:cat token}"}]}}}}`), 0o600))
	for _, value := range []string{"first-token-of-a-client", "second-token-of-a-client"} {
		expect.OK(t, os.WriteFile(filepath.Join(folder, "token"), []byte(value+"\n"), 0o600))
		c, err := config.Load(filepath.Join(folder, "mcp.json"))
		expect.OK(t, err)
		c = WithSecrets(t.Context(), c, nil, zap.NewNop())
		h, says := c.Router.HTTP, ""
		for _, p := range c.Problems {
			says += p.Error() + "\n"
		}
		if h.Tokens[0].Text != value || h.Tokens[1].Hash+h.Tokens[2].Hash != "" || h.Issuers[0].ClientSecret != value {
			t.Errorf("got %+v, want %q", h, value)
		}
		if strings.Contains(says, value) || !strings.Contains(says, `the token "lines"`) || !strings.Contains(says, `the token "failing" can't be read: ${cmd:exit 3} has no value`) {
			t.Errorf("it says %q", says)
		}
	}
}
