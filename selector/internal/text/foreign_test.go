package text

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestEnglish(t *testing.T) {
	for task, want := range map[string]string{
		"Lösche bitte die Datei":                   "delete file",
		"LÖSCHE BITTE DIE DATEI":                   "delete file",
		"Lo\u0308sche bitte die Datei":             "delete file",
		"Dateigröße":                               "file size",
		"Wettervorhersage für Berlin":              "forecast berlin",
		"Kalendereintrag erstellen":                "calendar record create",
		"die Rechnungsnummer der Kundin":           "invoice number customer",
		"¿Puedes borrar los archivos de la tabla?": "delete file table",
		"Envíale un mensaje":                       "send message",
		"Supprime ce fichier s'il te plaît":        "delete file",
		"Apague este arquivo, por favor":           "delete file",
		"删除这个文件":                                   "delete file",
		"翻译 the file":                              "translate file",
		"ファイルを削除してください":                            "file delete",
		"スクリーンショット":                                "screenshot",
		"天气":                                       "weather",
		"Lösche die Datei im Branch master":        "delete file branch master",
		"Lösche /tmp/Bericht.csv":                  "delete tmp csv",
	} {
		got := index.Words(english(task))
		for _, w := range index.Words(want) {
			if !slices.Contains(got, w) {
				t.Errorf("%q is %q, want %q among the words", task, got, want)
			}
		}
		if strings.ContainsFunc(english(task), func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana) }) {
			t.Errorf("%q is %q", task, english(task))
		}
	}
}

func TestEnglishOfEnglish(t *testing.T) {
	for _, task := range append(readLines(t, "english.txt"), "", "?!…") {
		expect.Equal(t, english(task), task, "the English of an English task")
	}
}

// TestForeignList checks the form of foreign.txt: what is in it can be found.
func TestForeignList(t *testing.T) {
	tools, stops := make(map[string]string), ""
	for line := range strings.Lines(foreignList) {
		key, list, ok := strings.Cut(line, ":")
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if bars := strings.Count(list, "|"); !ok || key != strings.ToUpper(key) && bars != 5 {
			t.Errorf("%d languages: %q", bars+1, line)
		}
		for field := range strings.FieldsSeq(strings.ReplaceAll(list, "|", " ")) {
			n := 0
			for found := range foreignTokens(field) {
				n++
				if len(found.folded) > maxForeignLen || found.isHan && len(found.folded)%3 != 0 {
					t.Errorf("%q is too long, or has rare characters", field)
				}
				if key != strings.ToUpper(key) {
					tools[string(found.folded)] = key
				}
			}
			expect.Equal(t, n, 1, "%q is … words", field)
		}
		if key == "STOP" {
			stops = list
		}
	}
	for found := range foreignTokens(stops) {
		if key, ok := tools[string(found.folded)]; ok {
			t.Errorf("%q means %s, and is a stop word", found.folded, key)
		}
	}
}

// readLines returns the lines of a file in testdata/foreign.
func readLines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "foreign", name))
	expect.OK(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func FuzzParse(f *testing.F) {
	for _, task := range []string{
		"", "Lösche die Datei", "¿Dónde está el archivo?", "删除 temp.txt 这个文件", "ファイルを削除", "ー", "ÿÀß\u0308", "\xff天\xe5", "𠮷野家𠮷",
		"delete the file", strings.Repeat("Donaudampfschifffahrt", 9), strings.Repeat("天气預報", 999), "ΣİıẞＡ", "lint /home/ann/a.go at 3pm; then “b”",
	} {
		f.Add(task)
	}
	f.Fuzz(func(t *testing.T, task string) {
		got := Parse(task)
		if len(got.Words) > 0 && len(got.Steps) == 0 || len(got.Steps) > maxSteps {
			t.Errorf("%q has %d steps", task, len(got.Steps))
		}
		for i, w := range got.Words {
			if w == "" || slices.Contains(got.Words[:i], w) {
				t.Errorf("%q is empty or repeated in %q", w, got.Words)
			}
		}
		for _, s := range got.Steps {
			for _, i := range s.Words {
				if i >= len(got.Words) {
					t.Errorf("%q: step %v of %d words", task, s.Words, len(got.Words))
				}
			}
		}
		for _, v := range Values(task) {
			if v == "" || !strings.Contains(task, v) {
				t.Errorf("value %q of %q", v, task)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct{ name, task string }{
		{"english", "Please find all the invoices of the last month that my customers have not paid yet and send them a reminder"},
		{"german", "Bitte finde alle Rechnungen aus dem letzten Monat, die meine Kunden noch nicht bezahlt haben, und schicke ihnen eine Zahlungserinnerung per Mail"},
		{"spanish", "Busca por favor todas las facturas del mes pasado que mis clientes no han pagado todavía y envíales un recordatorio por correo"},
		{"chinese", "请帮我找出上个月客户还没有付款的所有发票，然后给他们每个人发一封邮件提醒他们尽快付款"},
		{"unknown", strings.Repeat("Donaudampfschifffahrtsgesellschaft ", 20)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			foreignLexicon()
			b.ReportAllocs()
			for b.Loop() {
				Parse(bench.task)
			}
		})
	}
}
