package index

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"getHTTPUrl":               "get http url",
		"browser_take_screenshot":  "browser take screenshot",
		"list-all.repositories/v2": "list repositori v2",
		"MP3Player base64Encode":   "mp3 player base64 encod",
		"S3Bucket 3DModel":         "s3 bucket 3d model",
		"The weather in Paris":     "weather pari",
		"the of":                   "the of",
		"使用必应搜索 query":             "使 用 必 应 搜 索 queri",
		"Größe ändern, señor":      "größe ändern señor",
		"don't":                    "don t",
		"customers custom terminals terminate contains containers": "customer custom termin terminat contain container",
		"ÉCOLE ÉcoleNormale":            "école école normal",
		"\xff\xfebad\xffbytes":          "bad byte",
		strings.Repeat("x", 65) + " a1": "a1",
	} {
		expect.Equal(t, strings.Join(Words(text), " "), want, "Words(%q)", text)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("getHTTPUrl 使用 don't \xff")
	f.Fuzz(func(t *testing.T, text string) {
		words := Words(text)
		expect.List(t, words, Words(text), "not the same twice")
		for _, w := range words {
			if w == "" || strings.ContainsAny(w, " \t\n") || utf8.ValidString(text) && !utf8.ValidString(w) {
				t.Errorf("%q is not a word", w)
			}
		}
	})
}

func TestJoined(t *testing.T) {
	for text, want := range map[string][]string{
		"a MySQL table on GitHub": {"mysql", "github"},
		"plain words":             nil,
		"GetHTTPUrl":              nil, // three words
		"readFile":                nil, // an identifier
		"createPullRequestReview": nil,
		"VeryLongIdentifier":      nil,
		"Capital":                 nil,
	} {
		expect.List(t, make(Stemmer).Joined(text), want, "%q", text)
	}
}
