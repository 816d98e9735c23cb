package registry

// The kinds of things that servers offer.
const (
	KindTool     = "tool"
	KindPrompt   = "prompt"
	KindResource = "resource"
	KindTemplate = "template" // which searches take for a resource, too
)

// An Item is one thing that a server offers: just one of its fields is set.
type Item struct {
	Tool     *NormalizedTool
	Prompt   *Prompt
	Resource *Resource
	Template *Template
}

// Kind returns what the item is.
func (i Item) Kind() string {
	switch {
	case i.Tool != nil:
		return KindTool
	case i.Prompt != nil:
		return KindPrompt
	case i.Resource != nil:
		return KindResource
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
	case i.Resource != nil:
		return i.Resource.key()
	}
	return i.Template.key()
}

// docID returns the item's key among all that are in one index.
func (i Item) docID() string {
	if i.Tool != nil {
		return i.Tool.ID
	}
	return i.Kind() + " " + i.ID()
}

// tags returns the tags by which searches may be narrowed: a tool's
// capabilities, and of anything else its kind.
func (i Item) tags() []string {
	switch {
	case i.Tool != nil:
		return i.Tool.Capabilities
	case i.Template != nil:
		return []string{KindResource, KindTemplate}
	}
	return []string{i.Kind()}
}

// toolItems returns the tools of a snapshot.
func toolItems(s *Snapshot) []Item {
	items := make([]Item, len(s.tools))
	for i, t := range s.tools {
		items[i].Tool = t
	}
	return items
}

// otherItems returns all that is in a snapshot beside the tools.
func otherItems(s *Snapshot) []Item {
	items := make([]Item, 0, len(s.prompts)+len(s.resources)+len(s.templates))
	for _, p := range s.prompts {
		items = append(items, Item{Prompt: p})
	}
	for _, r := range s.resources {
		items = append(items, Item{Resource: r})
	}
	for _, t := range s.templates {
		items = append(items, Item{Template: t})
	}
	return items
}

// Items returns all that has the given ID: at most one thing of each kind.
func (s *Snapshot) Items(id string) []Item {
	var found []Item
	if t, ok := find(s.tools, id); ok {
		found = append(found, Item{Tool: t})
	}
	if p, ok := find(s.prompts, id); ok {
		found = append(found, Item{Prompt: p})
	}
	if r, ok := find(s.resources, id); ok {
		found = append(found, Item{Resource: r})
	}
	if t, ok := find(s.templates, id); ok {
		found = append(found, Item{Template: t})
	}
	return found
}
