package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

var typeNames = [analysis.NumTypes]string{
	analysis.URLType: "url", analysis.HostType: "host", analysis.PathType: "path", analysis.NumberType: "number",
	analysis.DateType: "date", analysis.QuotedType: "quoted", analysis.EmailType: "email", analysis.IDType: "id",
	analysis.UserType: "user", analysis.ChannelType: "channel", analysis.NameType: "name", analysis.CodeType: "code",
	analysis.QueryType: "query", analysis.SelectorType: "selector", analysis.VariableType: "variable", analysis.CommandType: "command",
}

// describe returns the words of a task, optional ones in parentheses, and its literals.
func describe(task string) string {
	var all []string
	t := Parse(task)
	for _, w := range t.Words {
		if w.Optional {
			w.Text = "(" + w.Text + ")"
		}
		all = append(all, w.Text)
	}
	all = append(all, "|")
	for _, l := range t.Literals {
		all = append(all, typeNames[l.Type]+":"+l.Text)
	}
	return strings.TrimSpace(strings.Join(all, " "))
}

func TestLiterals(t *testing.T) {
	for _, tc := range []struct{ task, want string }{
		{"lint /home/ann/src/main.go", "lint (go) | path:/home/ann/src/main.go"},
		{`open C:\Users\Ann\plan.docx, please`, `open (docx) | path:C:\Users\Ann\plan.docx`},
		{"merge a.pdf and ./b.pdf.", "merg (pdf) | path:a.pdf path:./b.pdf"},
		{"list the issues of acme/api", "list issu (acm) (api) | path:acme/api"},
		{"read and/or write the CI/CD config", "read write ci cd config |"},
		{"open https://docs.github.com/a/b.pdf?x=1 now", "open (pdf) (github) | url:https://docs.github.com/a/b.pdf?x=1"},
		{"take a screenshot of localhost:3000/login", "take screenshot | url:localhost:3000/login"},
		{"ping 10.0.0.1 and example.com", "ping | host:10.0.0.1 host:example.com"},
		{"build it with Node.js", "build node js |"},
		{"convert 5km and 12.5 miles to 40% of $20", "convert km mile | number:5km number:12.5 number:40% number:$20"},
		{"encode it as base64 in UTF-8", "encod base64 utf 8 |"},
		{"what happened on 2026-11-22 at 3pm", "happen | date:2026-11-22 date:3pm"},
		{"meet on 3 March 2027, or March 5th", "meet (march) | date:3 March 2027 date:March 5th"},
		{"orders of the last 30 days", "order (last) (day) | date:last 30 days"},
		{"remind me tomorrow at 9", "remind (tomorrow) | date:tomorrow date:9"},
		{"it may march on", "march |"},
		{`reply "on my way" to ann@example.com`, "repli | quoted:on my way email:ann@example.com"},
		{"close ACME-142 and #12 as 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "close (acm) | id:ACME-142 id:#12 id:3f2504e0-4f89-11d3-9a0c-0305e82c3301"},
		{"revert commit 9fceb02d", "revert commit | id:9fceb02d"},
		{"comment on issue 1177", "comment issu | id:1177"},
		{"message @ann in #general", "messag | user:@ann channel:#general"},
		{"click #login, then button.submit", "click | selector:#login selector:button.submit"},
		{"message Maria Lopez's team in Slack", "messag (maria) (lopez) team slack | name:Maria Lopez"},
		{"send it to the New GitHub", "send new (github) | name:GitHub"},
		{"Create New Issue In GitHub", "creat new issu github |"},
		{"please run npm test and stop", "run (npm) (test) stop | command:npm test"},
		{"open the terminal, run pytest -q tests/. Then stop", "open termin run (pytest) (q) (test) stop | command:pytest -q tests/"},
		{"run the tests of npm", "run test npm |"},
		{"delete the second row of the 3rd sheet", "delet row sheet | number:second number:3rd"},
		{"wait 1 second", "wait (second) | number:1"},
		{"Ann's last mail", "(ann) last mail | name:Ann"},
		{"run SELECT a FROM b WHERE c = 1. Then stop", "run (sql) stop | query:SELECT a FROM b WHERE c = 1"},
		{"select a flight from Berlin", "select flight (berlin) | name:Berlin"},
		{"explain `a + b` and parse(x)", "explain (pars) | code:a + b code:parse(x)"},
		{"set NODE_ENV and $HOME", "set (node) (env) | variable:NODE_ENV variable:$HOME"},
		{`post {"a": [1, 2]} to it`, `post | code:{"a": [1, 2]}`},
		// What is a tool's name stays a word.
		{"create a tool named `browser_click`", "creat tool name (browser) (click) | code:browser_click"},
		{"browser_navigate", "browser navig |"},
		{"find getUser", "find user |"},
		{`find "list issues"`, "find list issu | quoted:list issues"},
		// A task of nothing but literals is what to search for.
		{"https://example.com/weather", "https exampl com weather | url:https://example.com/weather"},
		{"/tmp/a.csv", "tmp csv | path:/tmp/a.csv"},
		// Other languages.
		{"Lösche die Datei /tmp/Bericht.csv bitte", "delet file lösche datei (csv) | path:/tmp/Bericht.csv"},
		{"删除文件/tmp/a.csv吧", "delet file document 删 除 文 件 (csv) | path:/tmp/a.csv"},
	} {
		if got := describe(tc.task); got != tc.want {
			t.Errorf("%q:\n%s, want\n%s", tc.task, got, tc.want)
		}
	}
}

// Any text is read in bounded time, and no literal is longer than the task.
func TestHostileTasks(t *testing.T) {
	for _, part := range []string{
		"a/", `"`, `"a`, `"a `, "'a ", "`", "```", "{", "[{ ", `{"`, "(", "“", "„a ", "#a ", "1 ", "SELECT ", "WITH a ", "next ",
		"March ", "Ab ", "a.b.", "a:", "$", "@", "\xff", "天", "https://", "...", "1-1-", "\\\\", "[a=", "é",
	} {
		task := strings.Repeat(part, MaxTask/8/len(part)+1)
		if got := Parse(task); len(got.Literals) > maxLiterals {
			t.Errorf("%q: %d literals", part, len(got.Literals))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, task := range []string{
		"", "lint /home/ann/a.go at 3pm", `say "hello" to 'them' in ` + "`a b`", `{"a":[1]} [x=y] #a .b c:\d`, "SELECT * FROM a; next 3 weeks",
		"删除文件/tmp/a.csv吧", "“a” „b“ «c» 「d」", "March 3rd, 2027 5km $20 @a a@b.de git@c.de:d/e", "\xff\"\xff", "İ'S ’s",
	} {
		f.Add(task)
	}
	f.Fuzz(func(t *testing.T, task string) {
		got := Parse(task)
		for _, l := range got.Literals {
			if l.Text == "" || l.Type >= analysis.NumTypes || !strings.Contains(task, strings.Fields(l.Text + " x")[0]) {
				t.Errorf("literal %+v of %q", l, task)
			}
		}
		if len(got.Words) > 0 && len(got.Steps) == 0 {
			t.Errorf("%q has no step", task)
		}
		for _, s := range got.Steps {
			for _, i := range s.Words {
				if i >= len(got.Words) {
					t.Errorf("%q: step %v of %d words", task, s.Words, len(got.Words))
				}
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct{ name, task string }{
		{"sentence", "Please find all the invoices of the last month that my customers have not paid yet and send them a reminder"},
		{"literals", `Open /home/ann/src/main.go and reply "on my way" to ann@example.com by Friday at 3pm about ACME-142 in GitHub`},
		{"keywords", "list issues repository"},
		{"hostile", strings.Repeat("a/", MaxTask/2)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			Parse(bench.task)
			b.ReportAllocs()
			for b.Loop() {
				Parse(bench.task)
			}
		})
	}
}

// Each text in curly quotation marks is a literal of its own.
func TestCurlyQuotes(t *testing.T) {
	for _, task := range []string{"in the note “Home page” delete the file “Intro”", "in der Notiz „Home page“ lösche die Datei „Intro“", "in the note „Home page” delete the file „Intro”"} {
		var quoted []string
		for _, l := range Parse(task).Literals {
			if l.Type == analysis.QuotedType {
				quoted = append(quoted, l.Text)
			}
		}
		if !slices.Equal(quoted, []string{"Home page", "Intro"}) {
			t.Errorf("%q: %q", task, quoted)
		}
	}
}

// A phrase that is said again says no more.
func TestPhraseIsSaidAgain(t *testing.T) {
	once, often := Parse("how many"), Parse(strings.Repeat("how many ", 100))
	if len(once.Words) != len(often.Words) {
		t.Errorf("%d words, said 100 times %d", len(once.Words), len(often.Words))
	}
}
