// Package cluster shares servers between routers on several machines, over NATS.
//
// A [Node] announces the servers that its configuration shares, has its [Host] serve other nodes, and
// connects this router to servers of other nodes. Announcements, definitions and loads are in a
// bucket of JetStream. Calls go over streams between two routers, which need core NATS only, so that
// calls do not depend on a leader.
package cluster
