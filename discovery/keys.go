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
// the schema, each is the only one of its name.
func keysFor(schema object) map[string]string {
	taken := make(map[string]bool)
	visit(schema, "", func(o object, _ string) {
		if properties, ok := asObject(o.get("properties")); ok {
			for i := range properties.Members {
				taken[properties.name(i)] = true
			}
		}
	})
	shown := make(map[string]string)
	for _, own := range slices.Sorted(maps.Keys(taken)) {
		if goodKey.MatchString(own) {
			continue
		}
		key := strings.Map(func(r rune) rune {
			if r < 0x80 && goodKey.MatchString(string(r)) {
				return r
			}
			return '_'
		}, own)
		for n := 0; !goodKey.MatchString(key) || taken[key]; n++ {
			key = fmt.Sprintf("%.50s_%.4x", key, sha256.Sum256(fmt.Append(nil, own, n)))
		}
		shown[own], taken[key] = key, true
	}
	return shown
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

// ownKeys returns the server's own keys by those that clients see, nil if there are none.
func ownKeys(shown map[string]string) map[string]string {
	var own map[string]string
	for theirs, key := range shown {
		if own == nil {
			own = make(map[string]string)
		}
		own[key] = theirs
	}
	return own
}
