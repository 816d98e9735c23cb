// Package keeper is the process guard: a process that starts the router's servers, is
// their parent, and kills their descendants after them. When the router ends, however it ends, the
// guard kills all that is left.
//
// The router's end is package process of the supervisor. It starts the guard process
// with one end of a socket as its stdin, and sends [Order]s with files over it. For each
// server it hands over one end of a second socket, the link. Over the link the guard
// sends [Report]s, and the router single bytes that ask for a signal. A [Container] is stopped by
// commands of its engine, which the guard process starts when the container's client has ended.
//
// On Windows the kernel kills the servers, and no guard runs.
package keeper

// MarkVariable holds a random mark in the environment of every process of a
// server, also of those that have left its process group.
const MarkVariable = "METAROUTER_SPAWN"
