package expect

import (
	"maps"
	"slices"
)

// Mutations calls f with the value in which one member or element, at any depth, is missing or another value.
func Mutations(v any, f func()) {
	wrong := []any{nil, 7.5, "odd", true, []any{}, map[string]any{}, []any{7}, map[string]any{"odd": 1}}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was := v[key]
			Mutations(was, f)
			for _, v[key] = range wrong {
				f()
			}
			delete(v, key)
			f()
			v[key] = was
		}
	case []any:
		for i, was := range v {
			Mutations(was, f)
			for _, v[i] = range wrong {
				f()
			}
			v[i] = was
		}
	}
}
