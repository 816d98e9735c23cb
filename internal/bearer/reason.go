package bearer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

const maxShown = 100 // bytes of a token's issuer or audience

// invalid returns why a token is refused, as a client may read it, in at most 300 bytes. The format and its texts must have only the
// characters of an error_description (RFC 6750, section 3), as [shown] returns them.
func invalid(format string, args ...any) error {
	return &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: fmt.Sprintf(format, args...)}
}

// genuine returns the refusal of a token that the issuer has issued.
func genuine(err error) error {
	if refused, ok := errors.AsType[*clientauth.Refusal](err); ok {
		refused.Genuine = true
	}
	return err
}

// shown returns a text for a reason, shortened, with ? for each character that may not stand in an error_description.
func shown(text string) string {
	if text == "" {
		return "empty"
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxShown {
		text = text[:maxShown-3] + "..."
	}
	return text
}
