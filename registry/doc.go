// Package registry holds what is known of every tool and finds tools by words.
//
// A [Registry] is told by whoever lists a server's tools what that server has
// now ([Registry.Replace], [Registry.Remove]). Readers see an immutable
// [Snapshot]: it never changes under them, and [Registry.Changed] tells when
// there is a newer one. Replacing is cheap, so a list of tools can be answered
// at once; the search index follows behind.
//
// The index is bleve's scorch in memory, scored by BM25. [Registry.Run] keeps
// it up with the catalog; a search that comes before it has caught up does the
// rest of the work itself, so a search always sees the tools of the snapshot
// that was current when it was called. A [Collection] is what such a search
// looks at: each tool as words, and how common each word is.
//
// A [Store] keeps catalogs on disk from one run to the next.
package registry
