package discovery

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// goodKey matches the keys of properties that APIs of models take. Anthropic's refuses a request for others.
var goodKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// keysFor returns the keys that clients see in place of those that APIs of models refuse, by the server's own. Within
// the schema, each is the only one of its name. own is the inverse, nil if there are none.
func keysFor(schema object) (shown, own map[string]string) {
	taken := make(map[string]bool)
	visit(schema, "", func(o object, _ string) {
		if properties, ok := asObject(o.get("properties")); ok {
			for i := range properties.Members {
				taken[properties.name(i)] = true
			}
		}
	})
	shown = make(map[string]string)
	for _, theirs := range slices.Sorted(maps.Keys(taken)) {
		if goodKey.MatchString(theirs) {
			continue
		}
		key := strings.Map(func(r rune) rune {
			if r < 0x80 && goodKey.MatchString(string(r)) {
				return r
			}
			return '_'
		}, theirs)
		for n := 0; !goodKey.MatchString(key) || taken[key]; n++ {
			key = fmt.Sprintf("%.50s_%.4x", key, sha256.Sum256(fmt.Append(nil, theirs, n)))
		}
		if own == nil {
			own = make(map[string]string)
		}
		shown[theirs], own[key], taken[key] = key, theirs, true
	}
	return shown, own
}

// rekey replaces the keys of a schema's properties, and those that its rules name, by those that clients see.
func (c *cleaner) rekey(o object) {
	if len(c.keys) == 0 {
		return
	}
	rename := func(v *hujson.Value) bool {
		own, _ := text(v)
		if key := c.keys[own]; key != "" {
			v.Value = hujson.String(key)
			return true
		}
		return false
	}
	list := func(v *hujson.Value) {
		if names, ok := v.Value.(*hujson.Array); ok {
			for i := range names.Elements {
				rename(&names.Elements[i])
			}
		}
	}
	renamed := false
	for i := range o.Members {
		switch v := &o.Members[i].Value; o.name(i) {
		case "required":
			list(v)
		case "properties", "dependentRequired", "dependentSchemas", "dependencies":
			members, ok := asObject(v)
			for j := 0; ok && j < len(members.Members); j++ {
				renamed = rename(&members.Members[j].Name) || renamed
				list(&members.Members[j].Value)
			}
		case "$ref":
			ref, _ := text(v)
			steps := strings.Split(ref, "/")
			for j := 1; j < len(steps); j++ {
				own, _ := url.PathUnescape(steps[j])
				if key := c.keys[unescaped.Replace(own)]; key != "" && steps[j-1] == "properties" {
					steps[j] = key
				}
			}
			v.Value = hujson.String(strings.Join(steps, "/"))
		}
	}
	if renamed {
		o.remove("propertyNames") // it is about the server's keys
	}
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")
