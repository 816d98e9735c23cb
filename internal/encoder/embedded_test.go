package encoder

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// The vectors of a task and of a tool that does it are nearer than the vectors of others.
func TestEmbedded(t *testing.T) {
	m := Embedded()
	near := func(task, tool string) (sum float32) {
		v := m.Encode(tool, Tool)
		for i, x := range m.Encode(task, Task) {
			sum += x * v[i]
		}
		return sum
	}
	for task, tools := range map[string][2]string{
		"what did I change since yesterday":  {"git git log. Shows the commit logs", "mail send email. Sends an email"},
		"let Jonas know that I am late":      {"mail send email. Sends an email", "files read file. Reads the contents of a file"},
		"how many people live in that place": {"maps place details. Population and address of a city", "git git log. Shows the commit logs"},
	} {
		if right, wrong := near(task, tools[0]), near(task, tools[1]); right <= wrong {
			t.Errorf("%q: %.2f for %q, %.2f for %q", task, right, tools[0], wrong, tools[1])
		}
	}
}

// Texts in letters that the model does not know have no meaning; before, all were near each other.
func TestUnknownLetters(t *testing.T) {
	for text, unknown := range map[string]bool{
		"ลบไฟล์ทั้งหมด": true, "отправить письмо": true, "이메일 보내기": true, "🚀": true, "commit изменения в ветку": true,
		"": false, "?!": false, "send письмо": false, "mail.send письмо": false, "gửi email": false,
	} {
		if v := Embedded().Encode(text, Task); (v.Dot(v) == 0) != unknown {
			t.Errorf("%q is unknown: %v", text, !unknown)
		}
		if v := Embedded().Encode(text, Tool); v.Dot(v) == 0 {
			t.Errorf("a tool %q has no meaning", text)
		}
	}
	parts := Embedded().EncodeParts([]string{"list the commits of the branch,", " отправить письмо"}, Task)
	if parts[0].Dot(parts[0]) == 0 || parts[1].Dot(parts[1]) == 0 || parts[2].Dot(parts[2]) != 0 {
		t.Error("parts in known and unknown letters")
	}
}

// A model with other vectors needs another name, since vectors are kept by it.
func TestVersion(t *testing.T) {
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(embedded))); Version != "metarouter-3" || sum[:16] != "7995ec1d19f6fe18" {
		t.Errorf("model %s is %s; give a changed model a new Version, and write both here", Version, sum[:16])
	}
}
