package index

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestSentence(t *testing.T) {
	for want, item := range map[string]registry.Item{
		"my files read File. Reads a file. Fast!": {Tool: &registry.NormalizedTool{Server: "my-files", Name: "readFile", Description: "Reads a  file.\nFast!"}},
		"lib write essay. An essay":               {Prompt: &registry.Prompt{Server: "lib", Name: "write_essay", Title: "An essay"}},
		"lib tides md. Tide tables":               {Resource: &registry.Resource{Server: "lib", Name: "tides.md", Description: "Tide tables"}},
		"lib weather. ":                           {Template: &registry.Template{Server: "lib", Name: "weather"}},
	} {
		expect.Equal(t, sentence(item), want, "the sentence")
	}
}

func TestApart(t *testing.T) {
	for name, want := range map[string]string{
		"getUser_id": "get User id", "HTTPServer": "HTTP Server", "parseJSON2XML": "parse JSON2 XML", "a.b/c-d:e": "a b c d e",
		"iPhone": "i Phone", "ABc": "A Bc", "": "", "überÄrger": "über Ärger", "listMCPs": "list MC Ps",
	} {
		expect.Equal(t, apart(name), want, "%q", name)
	}
}

func TestBeginning(t *testing.T) {
	long := strings.Repeat("word ", 50)
	for text, want := range map[string]string{
		"Reads a file. Fast!": "Reads a file. Fast!", "Reads. " + long: "Reads.", long + ". Reads.": long[:near], "": "",
	} {
		expect.Equal(t, beginning(text), want, "%.20q", text)
	}
}
