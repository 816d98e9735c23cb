package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

func TestUnitConvertTool(t *testing.T) {
	cs := connect(t, "utilities")
	got := answer[measure](t, cs, "unit_convert", `{"value":1,"from_unit":"Miles","to_unit":"KM"}`)
	if want := (measure{1.609344, "Miles", "KM"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"parsnip","to_unit":"km"}`, "parsnip", "length (nm", "temperature (C", "mass (µg")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"kg","to_unit":"km"}`, "mass", "length", "mi")
	refuse(t, cs, "unit_convert", `{"value":-274,"from_unit":"celsius","to_unit":"K"}`, "absolute zero")
	refuse(t, cs, "unit_convert", `{"value":1e308,"from_unit":"km","to_unit":"nm"}`, "range")
	refuse(t, cs, "unit_convert", `{"value":1e999,"from_unit":"km","to_unit":"nm"}`)
	refuse(t, cs, "unit_convert", `{"value":"1","from_unit":"km","to_unit":"m"}`, "value")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"km"}`, "to_unit")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"km","to_unit":"m","x":1}`, "x")
	refuse(t, cs, "unit_convert", `{}`, "value")
}

func TestConvert(t *testing.T) {
	for _, test := range []struct {
		value    float64
		from, to string
		want     float64
	}{
		{1, "mi", "km", 1.609344},
		{0.1, "m", "cm", 10},
		{1.1, "m", "mm", 1100},
		{12, "inches", "foot", 1},
		{3, "feet", "yard", 1},
		{1, "nautical_mile", "m", 1852},
		{1, "NM", "km", 1.852},
		{1e9, "nm", "m", 1},
		{5.5, `"`, "cm", 13.97},
		{1, "kilometre", "meters", 1000},
		{1, "in.", "mm", 25.4},
		{100, "C", "F", 212},
		{98.6, "°F", "°C", 37},
		{0, "c", "k", 273.15},
		{-40, "Celsius", "fahrenheit", -40},
		{-459.67, "F", "K", 0},
		{-273.15, "degrees Celsius", "kelvin", 0},
		{0, "K", "deg C", -273.15},
		{20, "℃", "ºF", 68},
		{491.67, "rankine", "C", 0},
		{1, "lb", "kg", 0.45359237},
		{16, "ounces", "pounds", 1},
		{1, "stone", "lbs", 14},
		{1, "Mg", "kg", 1000},
		{1, "MG", "g", 0.001},
		{1, "MM", "m", 0.001},
		{1, "Mm", "km", 1000},
		{500, "mcg", "mg", 0.5},
		{2.5, "KG", "Gramme", 2500},
		{1, "short ton", "lb", 2000},
		{-3, "m", "cm", -300},
		{0, "kg", "lb", 0},
	} {
		got, err := convert(test.value, test.from, test.to)
		if err != nil || got != test.want {
			t.Errorf("%v %s in %s: got %v, %v; want %v", test.value, test.from, test.to, got, err, test.want)
		}
	}
	for _, bad := range []string{"", " ", "degrees m", "°", "ton", "m2", "deg"} {
		if got, err := convert(1, bad, "m"); err == nil {
			t.Errorf("unit %q is accepted: %v", bad, got)
		}
	}
}

func TestUnitsConvertBack(t *testing.T) {
	all := units()
	for name, u := range all.exact {
		for other, v := range all.exact {
			if u.dimension != v.dimension {
				continue
			}
			there, err := convert(300, name, other)
			expect.OK(t, err)
			back, err := convert(there, other, name)
			if err != nil || back < 299.9999999999 || back > 300.0000000001 {
				t.Errorf("300 %s is %v %s is %v %s (%v)", name, there, other, back, name, err)
			}
		}
	}
}

func TestRedactTool(t *testing.T) {
	cs := connect(t, "utilities")
	const text = `"text":"Mail joe@example.com or call +1 (555) 123-4567."`
	for args, want := range map[string]redacted{
		`{` + text + `}`:                         {"Mail [REDACTED] or call [REDACTED].", 2},
		`{` + text + `,"redact_emails":false}`:   {"Mail joe@example.com or call [REDACTED].", 1},
		`{` + text + `,"redact_phones":false}`:   {"Mail [REDACTED] or call +1 (555) 123-4567.", 1},
		`{` + text + `,"replacement":"<$1>"}`:    {"Mail <$1> or call <$1>.", 2},
		`{` + text + `,"replacement":""}`:        {"Mail  or call .", 2},
		`{"text":""}`:                            {"", 0},
		`{"text":"a@b.co","redact_phones":true}`: {"[REDACTED]", 1},
	} {
		expect.Equal(t, answer[redacted](t, cs, "pii_redact", args), want, "%s", args)
	}
	refuse(t, cs, "pii_redact", `{}`, "text")
	refuse(t, cs, "pii_redact", `{"text":"x","emails":true}`, "emails")
	refuse(t, cs, "pii_redact", `{"text":1}`, "text")
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

func TestValidateTool(t *testing.T) {
	cs := connect(t, "utilities")
	const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}},"required":["name"],"additionalProperties":false}`
	for _, test := range []struct {
		schema, data string
		errors       []string // a part of each
	}{
		{person, `{"name":"Ann","age":3}`, nil},
		{person, `{"age":-1,"tags":["a",1],"x":2}`, []string{"(root): missing property 'name'", "'x' not allowed", "/age: minimum", "/tags/1: got number, want string"}},
		{person, `"Ann"`, []string{"(root): got string, want object"}},
		{`{"type":"null"}`, `null`, nil},
		{`{}`, `[1,"two",null]`, nil},
		{`{"const":9007199254740993}`, `9007199254740993`, nil},
		{`{"const":9007199254740993}`, `9007199254740992`, []string{"value must be 9007199254740993"}},
		{`{"type":"integer"}`, `1.0`, nil},
		{`{"anyOf":[{"type":"string"},{"minimum":5}]}`, `3`, []string{"'anyOf' failed ((root): got number, want string | (root): minimum: got 3, want 5)"}},
		{`{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c: got number"}},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":5,"exclusiveMinimum":true}`, `5`, []string{"exclusiveMinimum"}},
		{`{"$schema":"http://json-schema.org/draft-06/schema#","const":1}`, `2`, []string{"value must be 1"}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","if":{"type":"string"},"then":{"minLength":2}}`, `"a"`, []string{"minLength"}},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{"'b' required"}},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}`, `[1]`, []string{"/0: got number"}},
		{`{"$defs":{"node":{"properties":{"next":{"$ref":"#/$defs/node"}},"required":["v"]}},"$ref":"#/$defs/node"}`, `{"v":1,"next":{}}`, []string{"/next: missing property 'v'"}},
		{`{"$id":"https://example.com/s","$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `1`, []string{"(root): got number"}},
	} {
		got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":%s,"data":%s}`, test.schema, test.data))
		if got.Valid != (len(test.errors) == 0) || got.Errors == nil || len(got.Errors) != len(test.errors) {
			t.Errorf("%s for %s: got %+v, want %q", test.schema, test.data, got, test.errors)
			continue
		}
		for _, want := range test.errors {
			if !slices.ContainsFunc(got.Errors, func(e string) bool { return strings.Contains(e, want) }) {
				t.Errorf("%s for %s: got %q, none with %q", test.schema, test.data, got.Errors, want)
			}
		}
	}
	for schema, words := range map[string][]string{
		`{"type":"strnig"}`:                                     {"not valid", "/type", "string"},
		`{"properties":{"a":{"minimum":"5"}}}`:                  {"/properties/a/minimum"},
		`{"$ref":"https://example.com/s.json"}`:                 {"https://example.com/s.json", "never fetched"},
		`{"$ref":"file:///etc/passwd"}`:                         {"/etc/passwd", "never fetched"},
		`{"$ref":"other.json"}`:                                 {"other.json", "never fetched"},
		`{"$ref":"#/$defs/missing"}`:                            {"#/$defs/missing"},
		`{"$schema":"https://example.com/meta"}`:                {"https://example.com/meta", "never fetched"},
		`{"pattern":"(?<!a)b"}`:                                 {"regex"},
		`{"$ref":"#nowhere"}`:                                   {"nowhere"},
		`{"$schema":5}`:                                         {"$schema"},
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`: {"draft-03"},
	} {
		refuse(t, cs, "jsonschema_validate", `{"data":1,"schema":`+schema+`}`, words...)
	}
	hostile := schemas.Hostile()
	for _, name := range []string{"doubling allOf", "doubling anyOf", "doubling oneOf"} {
		refuse(t, cs, "jsonschema_validate", `{"data":1,"schema":`+hostile[name]+`}`, "too costly")
	}
	refuse(t, cs, "jsonschema_validate", `{"schema":{}}`, "data")
	refuse(t, cs, "jsonschema_validate", `{"schema":[],"data":1}`, "schema")
	refuse(t, cs, "jsonschema_validate", `{"schema":{},"data":1,"draft":7}`, "draft")
}

// Every format is checked in every draft, and the answer names the place.
func TestValidateFormats(t *testing.T) {
	cs := connect(t, "utilities")
	for format, test := range map[string]struct{ good, bad []string }{
		"date-time":             {[]string{"2026-11-22T17:00:00Z", "2026-11-22t17:00:00.5+01:00"}, []string{"2026-11-22", "2026-13-22T17:00:00Z", "2026-11-22T17:00:00", "now"}},
		"date":                  {[]string{"2024-02-29"}, []string{"2026-02-29", "22.11.2026"}},
		"time":                  {[]string{"17:00:00Z"}, []string{"17:00", "25:00:00Z"}},
		"duration":              {[]string{"P1DT2H"}, []string{"1 day", "P"}},
		"email":                 {[]string{"ann@example.com"}, []string{"ann", "ann@", "a b@example.com"}},
		"hostname":              {[]string{"example.com"}, []string{"-example.com", "a b"}},
		"ipv4":                  {[]string{"127.0.0.1"}, []string{"127.0.0.256", "127.0.0", "1.2.3.04"}},
		"ipv6":                  {[]string{"::1"}, []string{"127.0.0.1", ":::"}},
		"uri":                   {[]string{"https://example.com/a?b=c#d", "urn:isbn:1", "http://[::1]:80/", "mailto:ann@example.com"}, []string{"example.com", "/a", "https://example.com/a b", `c:\\a`, "http://[:::]/", "http://::1/", "https://ex%mple.com/ä"}},
		"uri-reference":         {[]string{"../a"}, []string{`\\a`}},
		"uuid":                  {[]string{"2EB8AA08-AA98-11EA-B4AA-73B441D16380"}, []string{"2eb8aa08", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
		"json-pointer":          {[]string{"/a/0", ""}, []string{"a", "/~2"}},
		"relative-json-pointer": {[]string{"1/a"}, []string{"/a"}},
		"regex":                 {[]string{"^a+$"}, []string{"(a"}},
		"of-our-own":            {[]string{"anything"}, nil},
	} {
		for i, text := range append(slices.Clone(test.good), test.bad...) {
			for _, draft := range []string{"", `"$schema":"http://json-schema.org/draft-07/schema#",`, `"$schema":"https://json-schema.org/draft/2019-09/schema",`} {
				got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":{%s"properties":{"at":{"format":%q}}},"data":{"at":"%s"}}`, draft, format, text))
				good := i < len(test.good)
				if got.Valid != good || !good && (len(got.Errors) != 1 || !strings.HasPrefix(got.Errors[0], "/at: ") || !strings.Contains(got.Errors[0], "is not valid "+format)) {
					t.Errorf("%s %s with %q: %+v", format, text, draft, got)
				}
			}
		}
		if got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":{"format":%q},"data":5}`, format)); !got.Valid {
			t.Errorf("%s, a number: %+v", format, got)
		}
	}
}

func TestValidateCapsErrors(t *testing.T) {
	data := make([]any, 150)
	got, err := validate(map[string]any{"items": map[string]any{"type": "string"}}, data)
	if err != nil || len(got.Errors) != maxSchemaErrors+1 || got.Errors[maxSchemaErrors] != "and 50 more" {
		t.Errorf("got %d errors, %v", len(got.Errors), err)
	}
}

const article = `Solar power is growing fast. Many countries build solar plants. My cat likes fish.
Dr. Lee of the U.S. Department of Energy says solar panels cost 3.5 times less than in 2010, e.g. in Spain.

The weather was nice! Solar panels now power millions of homes. "Who knew?" she asked.`

func TestSummarizeTool(t *testing.T) {
	cs := connect(t, "utilities")
	quoted, _ := json.Marshal(article)
	got := answer[summary](t, cs, "doc_summarize", `{"text":`+string(quoted)+`,"max_sentences":2}`)
	want := summary{"Dr. Lee of the U.S. Department of Energy says solar panels cost 3.5 times less than in 2010, e.g. in Spain. Solar panels now power millions of homes.", 2}
	expect.Equal(t, got, want)
	if got := answer[summary](t, cs, "doc_summarize", `{"text":`+string(quoted)+`}`); got.SummarySentences != 3 {
		t.Errorf("by default %d sentences, want 3", got.SummarySentences)
	}
	for text, want := range map[string]summary{``: {"", 0}, ` \n `: {"", 0}, `No stop`: {"No stop", 1}, `the of and. It is.`: {"the of and. It is.", 2}} {
		expect.Equal(t, answer[summary](t, cs, "doc_summarize", `{"text":"`+text+`","max_sentences":3.0}`), want, "%q", text)
	}
	refuse(t, cs, "doc_summarize", `{"text":"x","max_sentences":0}`, "minimum")
	refuse(t, cs, "doc_summarize", `{"text":"x","max_sentences":1.5}`, "max_sentences")
	refuse(t, cs, "doc_summarize", `{"text":"x","max_sentences":1e30}`, "maximum")
	refuse(t, cs, "doc_summarize", `{"max_sentences":1}`, "text")
	refuse(t, cs, "doc_summarize", `{"text":"x","style":"short"}`, "style")
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

func FuzzSentences(f *testing.F) {
	f.Add(article, 2)
	f.Add("1. a. B。」c\n\n- d ! E.e.f. G\x00\xff", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		all := sentences(text)
		if !slices.Equal(letters(all...), letters(text)) {
			t.Errorf("%q became %q", text, all)
		}
		for _, s := range all {
			if s == "" || s != strings.TrimSpace(s) {
				t.Errorf("sentence %q of %q", s, text)
			}
		}
		limit = max(limit, 1)
		short, n := summarize(text, limit)
		if n > limit || n > len(all) || n < min(limit, len(all)) {
			t.Errorf("%d sentences of %d, at most %d", n, len(all), limit)
		}
		if again, _ := summarize(text, limit); again != short {
			t.Errorf("not the same twice: %q, %q", short, again)
		}
	})
}

// letters are the runes that are not spaces.
func letters(texts ...string) []rune {
	var all []rune
	for _, s := range texts {
		for _, r := range s {
			if !unicode.IsSpace(r) {
				all = append(all, r)
			}
		}
	}
	return all
}
