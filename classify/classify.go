// Package classify sorts texts into the categories of a configuration.
//
// A Lexical says how likely a text is of each category; a Policy makes an Answer
// of that, whoever said it: which category it is, which model is to answer the
// text, and whether it should reason. Check says which texts can be classified.
//
// A Classifier does all of it, and first asks an outside classification server if
// there is one. It speaks the classification protocol of vLLM semantic router, in
// which list_categories names the categories and classify_text answers with an index
// of them. Nothing is kept of a text.
//
// All may be called by many goroutines at once.
package classify

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Check returns an error that says what to do if a text of at most limit bytes is
// expected, and this is none, or says nothing.
func Check(text string, limit int) error {
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
