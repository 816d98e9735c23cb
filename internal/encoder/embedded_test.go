package encoder

import "testing"

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
