// Package catalog is the catalog of all servers as clients see it: under which
// URIs, in which lists, and which tool a client means by a name.
//
// A [View] is one snapshot of the registry under exposed names; it is immutable. A [Catalog] holds
// the view of the latest snapshot and waits for servers that were never listed.
// [Tasks] puts the server into the ids of tasks, so that the next request for a
// task finds its server.
//
// The package knows no client and no protocol message. The packages conversation,
// tools, httpd and stdio lie above it.
package catalog
