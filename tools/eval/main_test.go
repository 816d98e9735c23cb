package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are a catalog with queries, and recorded lists with tasks.
var files = map[string]string{
	"tools.jsonl": `{"server":"mail","name":"send_message","description":"Send an email to somebody","input_schema":{"type":"object","properties":{"to":{"type":"string"}}}}
{"server":"sky","name":"get_forecast","description":"The weather of the next days"}`,
	"queries.jsonl": `{"id":"q1","query":"write an email to Bob","relevant":[{"server":"mail","name":"send_message"}]}
{"id":"q2","query":"will it rain tomorrow","relevant":[{"server":"sky","name":"get_forecast"}]}`,
	"bad.jsonl":          "{\"server\":\"a\",\"name\":\"b\"}\n{\n",
	"lists/mailer.json":  `{"tools": [{"name": "send_message", "description": "Send an email to somebody", "inputSchema": {"type": "object"}}]}`,
	"lists/weather.json": `{"tools": [{"name": "get_forecast", "description": "The weather of the next days", "inputSchema": {"type": "object"}}]}`,
	"home/catalog.json":  `{"servers": [{"name": "mail", "list": "mailer"}, {"name": "sky", "list": "weather"}]}`,
	"home/tasks.jsonl": `{"id": "1", "kind": "short", "task": "send email", "right": ["mail:send_message"]}
{"id": "2", "kind": "none", "task": "delete the branch fix/login", "right": []}`,
}

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"-catalog tools.jsonl -queries queries.jsonl -out rankings.jsonl": "Recall@1   1.000",
		"-catalog tools.jsonl -queries queries.jsonl -json":               `"ndcg@10": 1`,
		"-catalog tools.jsonl":                      "write -catalog FILE",
		"-catalog bad.jsonl -queries queries.jsonl": "bad.jsonl:2:",
		"-lists lists home":                         "short            1      100 (100–100)",
		"-lists lists -catalog home/catalog.json -queries home/tasks.jsonl -json -out outcomes.jsonl": `"calibration_error": 0.`,
		"-lists lists":     "folders with catalog.json and tasks.jsonl",
		"home":             "home: name the folder with the recorded lists of tools, too: -lists DIR",
		"-lists home home": `server "mail" of home`,
		"-k 0 -catalog tools.jsonl -queries queries.jsonl": "-k 0 is too small",
	} {
		var out strings.Builder
		if err := run(t.Context(), strings.Fields(line), &out); err != nil {
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %q in\n%s", line, want, out.String())
		}
	}
	for file, want := range map[string]string{"rankings.jsonl": `{"id":"q1","ranked":["mail:send_message"`, "outcomes.jsonl": `"id":"1","kind":"short","rank":1`} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
}
