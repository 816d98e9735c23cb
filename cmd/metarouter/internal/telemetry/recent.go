package telemetry

import "slices"

const (
	// maxSecrets is how many secrets are known that are in no configuration.
	maxSecrets = 10_000
	// maxTokens is how many tokens of logins are known.
	maxTokens = 1000
	// maxRecent bounds the secrets of one kind in bytes.
	maxRecent = 8 << 20
)

// A recent has the secrets that were added last, the oldest first.
type recent []string

// add adds a secret as the last one and reports whether it is new. The oldest ones go if
// there are more than most, or they are too long together.
func (r *recent) add(one string, most int) bool {
	if i := slices.Index(*r, one); i >= 0 {
		*r = append(slices.Delete(*r, i, i+1), one)
		return false
	}
	*r = append(*r, one)
	first, bytes := len(*r), 0
	for first > 0 && len(*r)-first < most {
		if bytes += len((*r)[first-1]); bytes > maxRecent {
			break
		}
		first--
	}
	*r = slices.Delete(*r, 0, first)
	return true
}
