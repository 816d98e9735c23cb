package clusternode

import "time"

// An Info is a node as people see it.
type Info struct {
	Node     string    `json:"node"` // its name; unique among the trusted ones and this one
	Key      string    `json:"key"`  // its public key
	Self     bool      `json:"self"`
	Trusted  bool      `json:"trusted"` // true for this node
	Alive    bool      `json:"alive"`
	Version  string    `json:"version"`
	Servers  []string  `json:"servers"` // that it shares, by its own names; never nil
	Tools    int       `json:"tools"`   // of these
	Latency  float64   `json:"latency_ms"`
	LastSeen time.Time `json:"last_seen"`

	// Routers is how many of its routers run: one shares, the others only use.
	Routers int `json:"routers,omitempty"`
	// Problem describes the problem of the node and its solution; "" without a problem.
	Problem string `json:"problem,omitempty"`
}

// A Report says how a router's connection to its cluster is.
type Report struct {
	Connected bool
	URL       string // of the NATS server, without credentials
	Server    string // the version of NATS, such as "2.12.1"
	JetStream bool

	// Problems are sentences, each a problem and its solution.
	Problems []string
}
