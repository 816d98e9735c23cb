// Package classify sorts texts into the categories of a configuration.
//
// A [Classifier] asks an outside classification server if the configuration has one, and
// a built-in classifier otherwise. Either gives a probability for each category; the
// configuration's threshold, fallback and rules then make an [Outcome] of them: the
// category, the model that should answer the text, and whether it should reason.
//
// The outside server speaks the classification protocol of vLLM semantic router:
// list_categories returns the names of the categories and classify_text returns the index
// of one. Its answers are bounded and checked; a wrong one is not used.
//
// No text is kept. All methods may be called by many goroutines at once.
package classify

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// check returns an error that says what to do if the text is longer than limit bytes,
// empty or not valid UTF-8.
func check(text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("the text has %d bytes and at most %d are classified; send its beginning, or raise max_text", len(text), limit)
	case !utf8.ValidString(text):
		return errors.New("the text is not valid UTF-8; encode it as such")
	case strings.TrimSpace(text) == "":
		return errors.New("the text is empty; send at least a word")
	}
	return nil
}
