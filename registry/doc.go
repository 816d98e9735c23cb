// Package registry holds what is known of all that servers offer, tools, prompts,
// resources and resource templates, and finds it by words.
//
// A [Registry] is told by whoever asks a server for its lists what it has
// now ([Registry.Replace], [Registry.Remove]). Readers see an immutable
// [Snapshot]: it never changes under them, and [Registry.Changed] tells when
// there is a newer one. Replacing is cheap, so a list of tools can be answered
// at once; the search index follows behind.
//
// The index is bleve's scorch in memory, scored by BM25. [Registry.Run] keeps
// it up with the catalog; a search that comes before it has caught up does the
// rest of the work itself, so a search always sees the snapshot that was current
// when it was called. A [Collection] is what such a search looks at: each item as
// words, and how common each word is. Tools have a collection of their own, so
// that nothing else weighs in their ranking ([Registry.Collection],
// [Registry.Others]).
//
// A [Store] keeps catalogs on disk from one run to the next.
package registry
