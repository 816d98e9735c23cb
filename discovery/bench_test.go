package discovery

import (
	"encoding/json"
	"strings"
	"testing"
)

func BenchmarkNormalize(b *testing.B) {
	ascii := `{"name":"read_file","title":"Read a file","description":"` + strings.Repeat("Reads the file at the path and returns its text. ", 10) + `",
		"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file's path, relative to the folder."},
		"lines":{"type":"array","items":{"type":"integer"},"description":"The first and the last line."}},"required":["path"]},
		"annotations":{"readOnlyHint":true}}`
	for name, raw := range map[string]string{
		"ascii": ascii, "unicode": strings.ReplaceAll(ascii, "file", "Größe"), "escaped": strings.Replace(ascii, "folder", `folder\u2019s`, 1),
		"hidden": strings.ReplaceAll(ascii, "Reads", "\u200bReads"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Normalize("s", json.RawMessage(raw), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
