package status

import "strings"

// A Server is the state of one server, and its use.
type Server struct {
	Status
	Calls   int  // that run
	Waiting int  // calls that wait for one of these to end
	Tools   int  // known tools, whether or not the server runs
	ByHand  bool // turned on or off by hand
}

// ByCluster is the transport of servers on other nodes.
const ByCluster = "cluster"

// Node returns the name of the node that has the server; "" for a server of this router, and for one
// with replicas on several nodes.
func (s Server) Node() string {
	at := strings.LastIndexByte(s.Name, '@')
	if s.Transport != ByCluster || at < 0 {
		return ""
	}
	return s.Name[at+1:]
}
