package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect runs the server and returns a client's session with it.
func connect(t *testing.T, root string) *mcp.ClientSession {
	t.Helper()
	server, err := newServer(root)
	expect.OK(t, err)
	st, ct := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), st, nil)
	expect.OK(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), ct, nil)
	expect.OK(t, err)
	t.Cleanup(func() {
		cs.Close()
		ss.Wait()
	})
	return cs
}

// call returns the text of a call's result, and whether it is an error.
func call(t *testing.T, cs *mcp.ClientSession, tool, args string) (text string, isError bool) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	expect.OK(t, err, "%s %s", tool, args)
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

const contact = `"text":"Mail joe@example.com or call +1 (555) 123-4567."`

// The tools' answers, and what an error must say.
func TestTools(t *testing.T) {
	cs := connect(t, t.TempDir())
	for _, test := range []struct{ tool, args, want, mistake string }{
		{"pii_redact", `{` + contact + `}`, `{"redacted_text":"Mail [REDACTED] or call [REDACTED].","redactions":2}`, ""},
		{"pii_redact", `{` + contact + `,"redact_emails":false}`, `{"redacted_text":"Mail joe@example.com or call [REDACTED].","redactions":1}`, ""},
		{"pii_redact", `{` + contact + `,"redact_phones":false,"replacement":"$1"}`, `{"redacted_text":"Mail $1 or call +1 (555) 123-4567.","redactions":1}`, ""},
		{"pii_redact", `{}`, "", "text"},
		{"doc_summarize", `{"text":"Cats eat fish. Dogs bark. Cats like fish.","max_sentences":2}`, `{"summary":"Cats eat fish. Cats like fish.","summary_sentences":2}`, ""},
		{"doc_summarize", `{"text":"x","max_sentences":0}`, "", "minimum"},
		{"doc_summarize", `{"text":" \n "}`, `{"summary":"","summary_sentences":0}`, ""},
		{"doc_summarize", `{"text":"Ants. Bees. Cats. Dogs."}`, `{"summary":"Ants. Bees. Cats.","summary_sentences":3}`, ""},
		{"search_files", `{"name":"*"}`, `{"matches":[],"truncated":false}`, ""},
		{"search_files", `{}`, "", "name, text"},
		{"search_files", `{"name":"[a"}`, "", "[a"},
		{"search_files", `{"name":"x","path":"missing"}`, "", "missing"},
	} {
		text, isError := call(t, cs, test.tool, test.args)
		if isError != (test.mistake != "") || !isError && text != test.want || !strings.Contains(text, test.mistake) {
			t.Errorf("%s %s: %s; want %s%s", test.tool, test.args, text, test.want, test.mistake)
		}
	}
}

// write makes a folder with files, and next to it a secret, which the tool must not reach.
func write(t *testing.T) (root string) {
	t.Helper()
	base := t.TempDir()
	for name, content := range map[string]string{
		"secret.txt":                    "TOPSECRET",
		"root/readme.md":                "Hello World\nsecond line\nhello again\n",
		"root/.hidden.md":               "hello hidden\n",
		"root/docs/guide.md":            "a guide: HELLO\r\n",
		"root/docs/deep/er/notes.txt":   "nothing here\n",
		"root/bin.dat":                  "\x00\x01hello\xff",
		"root/node_modules/x/readme.md": "hello module\n",
		"root/large.txt":                "needle" + strings.Repeat("x", maxSearchedFile),
		"root/line.txt":                 strings.Repeat("ä", 5000) + "needle" + strings.Repeat("ä", 5000),
	} {
		name = filepath.Join(base, filepath.FromSlash(name))
		expect.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		expect.OK(t, os.WriteFile(name, []byte(content), 0o644))
	}
	root = filepath.Join(base, "root")
	if runtime.GOOS != "windows" { // where links need a privilege
		expect.OK(t, os.Symlink(filepath.Join("..", "secret.txt"), filepath.Join(root, "link-file")))
		expect.OK(t, os.Symlink("..", filepath.Join(root, "link-dir")))
	}
	return root
}

func TestSearchFiles(t *testing.T) {
	cs := connect(t, write(t))
	for _, test := range []struct{ args, want string }{
		{`{"name":"*.md"}`, ".hidden.md docs/guide.md readme.md"},
		{`{"name":"*.md","path":"docs/../docs/"}`, "docs/guide.md"},
		{`{"name":"docs/**/*.*"}`, "docs/deep/er/notes.txt docs/guide.md"},
		{`{"name":"**/notes.txt"}`, "docs/deep/er/notes.txt"},
		{`{"name":"deep/*/notes.txt","path":"docs"}`, "docs/deep/er/notes.txt"},
		{`{"name":"./.hidden.md"}`, ".hidden.md"},
		{`{"text":"hello"}`, ".hidden.md:1:hello hidden docs/guide.md:1:a guide: HELLO readme.md:1:Hello World readme.md:3:hello again"},
		{`{"text":"hello","case_sensitive":true}`, ".hidden.md:1:hello hidden readme.md:3:hello again"},
		{`{"text":"hello","name":"r*.md","max_results":1}`, "readme.md:1:Hello World +"},
		{`{"text":"second","path":"readme.md"}`, "readme.md:2:second line"},
		{`{"text":"hello","path":"node_modules"}`, "node_modules/x/readme.md:1:hello module"},
		{`{"text":"l.*o"}`, ""},
		{`{"text":"TOPSECRET"}`, ""},
	} {
		text, isError := call(t, cs, "search_files", test.args)
		var result searchResult
		if expect.OK(t, json.Unmarshal([]byte(text), &result), "%s: %s", test.args, text); isError {
			t.Errorf("%s: %s", test.args, text)
		}
		var got []string
		for _, m := range result.Matches {
			if m.Line > 0 {
				m.Path += fmt.Sprintf(":%d:%s", m.Line, m.Text)
			}
			got = append(got, m.Path)
		}
		if result.Truncated {
			got = append(got, "+")
		}
		expect.Equal(t, strings.Join(got, " "), test.want, "%s", test.args)
	}
}

func TestSearchSkipsLargeFilesAndCutsLines(t *testing.T) {
	text, _ := call(t, connect(t, write(t)), "search_files", `{"text":"needle"}`)
	var got searchResult
	expect.OK(t, json.Unmarshal([]byte(text), &got))
	if len(got.Matches) != 1 || got.Matches[0].Path != "line.txt" || !strings.Contains(got.Note, "2 not searched") {
		t.Fatalf("got %.300s", text)
	}
	if text := got.Matches[0].Text; len(text) > maxLineBytes || !strings.Contains(text, "needle") {
		t.Errorf("excerpt %q", text)
	}
}

func TestNothingOutsideTheRoot(t *testing.T) {
	cs := connect(t, write(t))
	for _, path := range []string{"..", "../secret.txt", "docs/../../secret.txt", "/etc/passwd", `C:\Windows`, "link-dir/secret.txt", "link-file", "link-dir", "readme.md\x00"} {
		args, err := json.Marshal(map[string]string{"path": path, "text": "SECRET"})
		expect.OK(t, err)
		text, isError := call(t, cs, "search_files", string(args))
		if !isError && !strings.HasPrefix(text, `{"matches":[],`) || strings.Contains(text, "TOPSECRET") {
			t.Errorf("%q: %s", path, text)
		}
	}
}

// In each text, the parts between « and » are to be redacted and nothing else.
func TestRedact(t *testing.T) {
	for _, marked := range []string{
		// Email addresses.
		"«joe@example.com»",
		"Write to «joe.bloggs+news@mail.example.co.uk».",
		"<«a_b-c%d@x-y.org»>, «O'Brien@example.ie»; mailto:«x@y.de»",
		"«jörg@müller.de» and «用户@例子.公司»",
		"name=«joe@example.com»&x=1",
		"«joe@[192.168.1.1]»",
		"«5551234567@txt.example.net»",
		"@handle, joe@localhost, lodash@4.17.21, a @ b.com, @example.com",

		// Phone numbers.
		"«555-123-4567»", "«(555) 123-4567»", "«(555)123-4567»", "«555.123.4567»", "«555 123 4567»", "«5551234567»",
		"«123-456-7890»", "«1-800-555-0199»", "«1 (555) 123-4567»", "«+1 555 123 4567»", "«+15551234567»", "«15551234567»",
		"«+1-555-123-4567 ext. 89»", "«555-123-4567 x12»",
		"«+44 20 7946 0958»", "«+44 (0)20 7946 0958»", "«(+44) 20 7946 0958»", "(«+44 20 7946 0958»)", "«+442079460958»", "«020 7946 0958»", "«(020) 7946 0958»", "«07911 123456»",
		"«0044 20 7946 0958»", "«011 44 20 7946 0958»",
		"«+49 30 123456»", "«+49 (30) 1234-567»", "«030/1234567»", "«+49-171-1234567»",
		"«+33 1 23 45 67 89»", "«01 23 45 67 89»", "«01.23.45.67.89»", "«06.12.34.56.78»",
		"«+91 98765 43210»", "«98765 43210»", "«+86 138 0013 8000»", "«138-0013-8000»", "电话«13800138000»。",
		"«+34 612 34 56 78»", "«(11) 91234-5678»", "«03-1234-5678»", "«0412 345 678»", "«1300 123 456»", "«+353 1 234 5678»",
		"«555-1234»", "Tel: «234-5678»", "phone number is «12 34 56 78»", "call me at «8675309»", `"phone":"«2345678»"`,
		"tel:«+1-201-555-0123», phone=«5551234567».", "(«555-123-4567»)", "Call «555-123-4567». Then go.",
		"«555-123-4567», «555-987-6543» «555-111-2222»; «555-333-4444»",
		"On 2026-11-21 «555-123-4567» rang at 10:30", "3 calls from «+44 20 7946 0958»",
		"«+1\u00a0555\u00a0123\u00a04567» and «555‑123‑4567» and «555 – 123 – 4567»",
		"«555-123-4567» «joe@example.com»",

		// Neither.
		"2026-11-21", "21.11.2026", "11/21/2026", "2026/11/21 10:30:45", "2026-11-21T10:00:00+0200", "01/02/2026 10:30", "01.02.2026 14.30", "2019-2024",
		"call 2026-11-21", "10:30:45", "12:30-13:45",
		"192.168.1.1", "192.168.100.100:8080", "10.0.0.0/24", "255.255.255.255", "fe80::1",
		"v1.2.3", "120.0.6099.109", "go1.26.8", "1.2.3-rc.4",
		"order 4815162342", "Order #5551234567", "invoice no. 5551234567", `"order_id": 5551234567`, "?id=5551234567", "#5551234567",
		"123456", "12345678", "123456789", "123456789012", "1234567890123456789", "1732147200", "1732147200000",
		"$5551234567", "1,234,567,890", "3.1415926535", "0.0123456789", "40.712776, -74.005974", "100%", "640x480", "5551234567.jpg",
		"4111 1111 1111 1111", "4111-0123-4567-8901", "DE89 3704 0044 0532 0130 00", "550e8400-e29b-41d4-a716-446655440000",
		"978-0-306-40615-7", "0-306-40615-2", "12345-6789", "02134-1234", "123-45-6789", "20261121103000", "2026112101",
		"555-123-4567-89", "ABC-555-123-4567", "abc5551234567", "5551234567abc", "https://example.com/5551234567/x",
		"1 2 3 4 5 6 7 8 9 10 11 12", "pages 100-2000", "C++11 and C++14", "",
	} {
		text := strings.NewReplacer("«", "", "»", "").Replace(marked)
		var want strings.Builder
		rest, n := marked, 0
		for {
			before, after, ok := strings.Cut(rest, "«")
			want.WriteString(before)
			if !ok {
				break
			}
			n++
			want.WriteString("[X]")
			_, rest, _ = strings.Cut(after, "»")
		}
		got, count := redact(text, true, true, "[X]")
		if got != want.String() || count != n {
			t.Errorf("%q:\n got %q, %d\nwant %q, %d", text, got, count, want.String(), n)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Mail joe@example.com, call +1 (555) 123-4567 x9 or 020 7946 0958.", true, true)
	f.Add("(((+1)2.3-4/5 6)7 8\u00a09\xff@_", true, true)
	f.Fuzz(func(t *testing.T, text string, emails, phones bool) {
		const placeholder = "\x00PII\x00"
		if strings.Contains(text, placeholder) {
			return
		}
		got, n := redact(text, emails, phones, placeholder)
		if strings.Count(got, placeholder) != n {
			t.Errorf("%d placeholders, %d counted", strings.Count(got, placeholder), n)
		}
		if (n == 0 || !emails && !phones) && got != text {
			t.Errorf("nothing to redact, yet %q became %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q became %q, which is not UTF-8", text, got)
		}
		at := 0 // what is left is in the text, in order
		for part := range strings.SplitSeq(got, placeholder) {
			i := strings.Index(text[at:], part)
			if i < 0 {
				t.Fatalf("%q is not in the rest of %q", part, text)
			}
			at += i + len(part)
		}
	})
}

// In each text, | marks where a sentence ends.
func TestSentences(t *testing.T) {
	for _, marked := range []string{
		"One.| Two!| Three?| Four",
		"Dr. Smith met Mrs. Jones at St. Paul's.| They talked.",
		"Bring fruit, e.g. apples, i.e. food.| Then go.",
		"Pi is 3.14159 or so.| See https://example.com/a.b?c=d.| Or not.",
		"J. R. R. Tolkien wrote it.| So did I.| You too.",
		"The U.S. Army left.| She lives in the U.S.| The end.",
		"See fig. 3 and No. 5.| No.| Never.",
		"He asked, \"Who?\"| \"Me!\" she said.| (Really.)| Yes.",
		"Apples, pears, etc. are fruit.| Wait... what?| Hmm...| Yes.",
		"Version 1.2.3 is out.| Open a.txt or b.md now.",
		"Mr. X vs. Ms. Y on Jan. 5 at 5 p.m. sharp.",
		"A heading|\n\nA paragraph that\nwraps.| More.",
		"# Title|\nText.|\n- one|\n- two|\n1. First item.| Second sentence.|\n2. Next",
		"今天很好。|明天也好！|是吗？",
		"Yahoo! is a company.| Is it?",
		"", "   ", "...", ".",
	} {
		var want []string
		for part := range strings.SplitSeq(marked, "|") {
			if s := strings.Join(strings.Fields(part), " "); s != "" {
				want = append(want, s)
			}
		}
		expect.List(t, sentences(strings.ReplaceAll(marked, "|", "")), want, "%q", marked)
	}
}
