// Package registry is the catalog: the tools, prompts, resources and resource templates
// of all servers.
//
// # Snapshots
//
// The program that lists a server's tools calls [Registry.Replace]. Readers get an
// immutable [Snapshot]; [Registry.Changed] returns a channel that is closed when there is
// a newer one. Replacing is cheap, so that a list of tools is answered at once; the index
// of package selector follows later.
package registry
