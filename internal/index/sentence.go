package index

import (
	"cmp"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/registry"
)

// textsOf returns what every item has.
func textsOf(i registry.Item) (server, name, title, description string) {
	switch {
	case i.Tool != nil:
		return i.Tool.Server, i.Tool.Name, i.Tool.Title, i.Tool.Description
	case i.Prompt != nil:
		return i.Prompt.Server, i.Prompt.Name, i.Prompt.Title, i.Prompt.Description
	}
	r := cmp.Or(i.Resource, i.Template, i.Skill)
	return r.Server, r.Name, r.Title, r.Description
}

// sentence returns what the sentence encoder reads of an item: the name of the server, the name of the
// item, and the beginning of the description.
func sentence(i registry.Item) string {
	server, name, title, description := textsOf(i)
	description = strings.Join(strings.Fields(cmp.Or(description, title)), " ")
	return strings.TrimSpace(apart(server)+" "+apart(name)) + ". " + beginning(description)
}

var (
	separator = lazy.Regexp(`[_\-./:]`)
	hump      = lazy.Regexp(`([\p{Ll}\p{Nd}])(\p{Lu})`)
	acronym   = lazy.Regexp(`(\p{Lu})(\p{Lu}\p{Ll})`)
)

// apart returns the words of a name: "getUser_id" is "get User id".
func apart(name string) string {
	name = separator().ReplaceAllString(name, " ")
	name = acronym().ReplaceAllString(hump().ReplaceAllString(name, "$1 $2"), "$1 $2")
	return strings.Join(strings.Fields(name), " ")
}

// near is how many bytes of a description the encoder reads.
const near = 200

// beginning returns the sentences of a description that fit into near bytes, or the beginning of
// the first one.
func beginning(text string) string {
	if len(text) > near {
		text = text[:near]
		if end := strings.LastIndexAny(text, ".!?") + 1; end > 0 {
			text = text[:end]
		}
	}
	return strings.ToValidUTF8(text, "")
}
