package text

import "testing"

// A phrase of several words is named as the task has it.
func TestSpellerOfPhrase(t *testing.T) {
	if said := Speller("How many words has it?")("how mani"); said != "How many" {
		t.Errorf("the phrase is spelled %q", said)
	}
}
