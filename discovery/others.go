package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// normalizePrompt returns the prompt of one element of a prompts/list result, repaired as
// [Normalize] repairs a tool.
func normalizePrompt(server string, raw json.RawMessage, key string) (registry.Prompt, error) {
	r, definition, o, name, err := openItem(raw, key)
	if err != nil {
		return registry.Prompt{}, err
	}
	p := registry.Prompt{ID: registry.ID(server, name), Server: server, Name: name}
	p.Title, p.Description = r.text(o, "title"), r.text(o, "description")
	r.arguments(o)
	r.optional(o)
	p.Definition, err = pack(definition)
	p.Repairs = r
	return p, err
}

// openItem parses the definition of an element that its server knows by the member key, which is its id.
func openItem(raw json.RawMessage, key string) (r repairs, definition hujson.Value, o object, id string, err error) {
	if definition, o, err = r.open(raw, key); err == nil {
		id, err = identify(o, key)
	}
	return r, definition, o, id, err
}

// normalizeResource returns the resource, or the template, of one element of a list, repaired as [Normalize] repairs a tool. The member
// key has its URI, which replaces a missing name.
func normalizeResource(server string, raw json.RawMessage, key string) (registry.Resource, error) {
	r, definition, o, uri, err := openItem(raw, key)
	if err != nil {
		return registry.Resource{}, err
	}
	name, ok := text(o.get("name"))
	if !ok {
		r.note("name: replaced by the URI, since it must be a string")
		o.put("name", hujson.String(uri))
		name = uri
	}
	res := registry.Resource{ID: registry.ID(server, uri), Server: server, URI: uri, Name: name}
	res.Title, res.Description, res.MIMEType = r.text(o, "title"), r.text(o, "description"), r.text(o, "mimeType")
	if key == "uri" {
		r.refused(o, "size", "it must be a whole number of bytes")
	}
	if annotations, ok := r.object(o, "annotations"); ok {
		r.refused(annotations, "audience", `it must be an array of "user" and "assistant"`)
		r.refused(annotations, "priority", "it must be a number from 0 to 1")
		r.refused(annotations, "lastModified", "it must be a time with a zone, as in ISO 8601")
	}
	r.optional(o)
	res.Definition, err = pack(definition)
	res.Repairs = r
	return res, err
}

// arguments removes a prompt's arguments without a name.
func (r *repairs) arguments(prompt object) {
	v := prompt.get("arguments")
	if v == nil {
		return
	}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		r.drop(prompt, "arguments", "it must be an array and is "+kind(v))
		return
	}
	var kept []hujson.Value
	for i := range array.Elements {
		argument, ok := asObject(&array.Elements[i])
		if ok {
			r.unique(argument, "an argument")
			_, ok = text(argument.get("name"))
		}
		if !ok {
			r.note("arguments: removed number %d, since it must be an object with a name", i+1)
			continue
		}
		r.text(argument, "title")
		r.text(argument, "description")
		r.boolean(argument, "required")
		kept = append(kept, array.Elements[i])
	}
	keepElements(array, kept)
}

const maxSkillFiles, maxSkillBytes = 512, 16 << 20 // hosts need load no larger skill

var digestForm = lazy.Regexp(`^sha256:[0-9a-f]{64}$`)

// Skill returns the skill of one element of a skills/list or skills/get result. An error says why hosts must not load it.
func Skill(server string, raw json.RawMessage) (registry.Skill, error) {
	r, definition, _, uri, err := openItem(raw, "uri")
	if err != nil {
		return registry.Skill{}, err
	}
	s := registry.Skill{ID: registry.ID(server, uri), Server: server, URI: uri, Repairs: r}
	if s.Definition, err = pack(definition); err != nil {
		return s, err
	}
	front := wire.Member(s.Definition, "frontmatter")
	s.Name, s.Description = wire.Text(front, "name"), wire.Text(front, "description")
	switch files, resources := s.Files(), wire.Member(s.Definition, "resources"); {
	case s.Name == "" || s.Description == "":
		return s, errors.New("its frontmatter has no name, or no description")
	case !strings.HasSuffix(uri, urls.SkillFile) || path.Base(path.Dir(uri)) != s.Name:
		return s, fmt.Errorf("its uri does not end with /%.80s%s, its name", s.Name, urls.SkillFile)
	case len(files) > maxSkillFiles:
		return s, fmt.Errorf("it has %d files, more than %d", len(files), maxSkillFiles)
	case wire.IsArray(resources):
		return s, checkFiles(uri, files)
	case string(resources) != `"dynamic"`:
		return s, errors.New(`its resources are neither an array of files nor "dynamic"`)
	}
	return s, nil
}

// checkFiles returns the error of the files of the skill with the URI.
func checkFiles(skill string, files []registry.SkillEntry) error {
	folder := strings.TrimSuffix(skill, urls.SkillFile[1:])
	seen, size := map[string]bool{}, int64(0)
	for _, f := range files {
		below, inside := strings.CutPrefix(f.URI, folder)
		below, err := url.PathUnescape(strings.ReplaceAll(below, `\`, "/"))
		switch {
		case !inside || err != nil || below == "" || path.Clean("/"+below) != "/"+below:
			return fmt.Errorf("its file %.80q is not in its folder", f.URI)
		case seen[f.URI]:
			return fmt.Errorf("its file %.80q is listed twice", f.URI)
		case !digestForm().MatchString(f.Digest) || f.Size < 0:
			return fmt.Errorf("its file %.80q has no size, or no digest of the form sha256:HEX", f.URI)
		case f.Size > maxSkillBytes-size:
			return fmt.Errorf("its files have more than %d MiB together", maxSkillBytes>>20)
		}
		seen[f.URI] = true
		size += f.Size
	}
	if !seen[skill] {
		return errors.New("its list of files lacks its own SKILL.md")
	}
	return nil
}
