package registry

import "cmp"

// The kinds of things that servers offer.
const (
	KindTool     = "tool"
	KindPrompt   = "prompt"
	KindResource = "resource"
	KindTemplate = "template" // searches for resources find templates, too
	KindSkill    = "skill"
)

// An Item is one thing that a server offers: exactly one of its fields is set.
type Item struct {
	Tool     *NormalizedTool
	Prompt   *Prompt
	Resource *Resource
	Template *Template
	Skill    *Skill
}

// Kind returns the kind of the item.
func (i Item) Kind() string {
	switch {
	case i.Tool != nil:
		return KindTool
	case i.Prompt != nil:
		return KindPrompt
	case i.Resource != nil:
		return KindResource
	case i.Skill != nil:
		return KindSkill
	}
	return KindTemplate
}

// ID returns the item's key among all of its kind.
func (i Item) ID() string {
	id, _, _ := i.key()
	return id
}

// Server returns the name of the item's server in the configuration.
func (i Item) Server() string {
	_, server, _ := i.key()
	return server
}

func (i Item) key() (id, server, name string) {
	switch {
	case i.Tool != nil:
		return i.Tool.key()
	case i.Prompt != nil:
		return i.Prompt.key()
	}
	return cmp.Or(i.Resource, i.Template, i.Skill).key()
}

// Items returns all items with the given ID: at most one of each kind.
func (s *Snapshot) Items(id string) (found []Item) {
	for _, i := range []Item{
		{Tool: find(s.all.Tools, id)},
		{Prompt: find(s.all.Prompts, id)},
		{Resource: find(s.all.Resources, id)},
		{Template: find(s.all.Templates, id)},
		{Skill: find(s.all.Skills, id)},
	} {
		if i != (Item{}) {
			found = append(found, i)
		}
	}
	return found
}
