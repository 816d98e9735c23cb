package bearer

import (
	"fmt"
	"strings"
)

const (
	maxReason = 300 // bytes
	maxShown  = 100 // bytes of a token's issuer or audience
)

// invalid returns why a token is refused, as a client may read it. It has only the characters of
// an error_description (RFC 6750, section 3).
func invalid(format string, args ...any) error {
	return &InvalidError{bounded(fmt.Sprintf(format, args...), maxReason)}
}

// shown returns a text of a token for a reason.
func shown(text string) string {
	if text == "" {
		return "empty"
	}
	return bounded(text, maxShown)
}

// shownAudience returns the audience of a token for a reason.
func shownAudience(all []string) string {
	switch len(all) {
	case 0:
		return "missing"
	case 1:
		return shown(all[0])
	}
	return fmt.Sprintf("%s and %d more", shown(all[0]), len(all)-1)
}

// bounded returns at most so many bytes of a text, with ? for each character that may not stand in
// an error_description.
func bounded(text string, most int) string {
	var b strings.Builder
	for _, r := range text {
		if b.Len() == most-3 {
			b.WriteString("...")
			break
		}
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			r = '?'
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}
