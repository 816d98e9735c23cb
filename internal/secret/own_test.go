package secret

import (
	"os"
	"testing"
)

// The router's token leaves the environment, and stays known.
func TestToken(t *testing.T) {
	t.Setenv(TokenVariable, "of-the-router")
	for range 2 {
		if got := Token(); got != "of-the-router" {
			t.Errorf("the token is %q", got)
		}
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
