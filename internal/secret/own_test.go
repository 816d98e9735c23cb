package secret

import (
	"os"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The router's token leaves the environment, and stays known.
func TestToken(t *testing.T) {
	t.Setenv(TokenVariable, "of-the-router")
	for range 2 {
		expect.Equal(t, Token(), "of-the-router", "the token")
	}
	if got, ok := os.LookupEnv(TokenVariable); ok {
		t.Errorf("%s=%s is still in the environment", TokenVariable, got)
	}
	if got, ok := LookupEnv(TokenVariable); !ok || got != "of-the-router" {
		t.Errorf("a configuration reads %q, %v", got, ok)
	}
	t.Setenv(TokenVariable, "")
	if got, ok := LookupEnv(TokenVariable); ok {
		t.Errorf("without a token a configuration reads %q", got)
	}
}
