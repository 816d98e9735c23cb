// Package cluster shares servers between routers on several machines, over NATS.
//
// A [Node] announces the servers that its configuration shares, runs calls of other nodes on
// them, and makes the servers of others sessions of its own router. Definitions and announcements
// are in JetStream; heartbeats and calls use core NATS only, so that they do not depend on a leader.
package cluster
