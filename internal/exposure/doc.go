// Package exposure says how clients see a router's tools: under which names ([Names]), and in which
// mode: [Direct] or [Search]. It has the state of servers as JSON, too, as /v1/mesh_scan, the admin API and commands show it.
//
// [Resolve] finds the tool that a name of any form means. The package is for the server, which shows
// the tools, and for commands that explain the names.
package exposure
