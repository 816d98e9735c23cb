package doctor

import (
	"fmt"
	"net"
	"strings"
)

// A Port is an address at which this configuration is to be served over HTTP, and at which
// a program listens that does not serve it.
type Port struct {
	Address string   // such as "127.0.0.1:8787"
	Holder  string   // the program, in words
	Router  bool     // it is a router that does not answer for this configuration
	End     string   // the command that ends it, "" if it is not known
	Set     bool     // the configuration sets the address
	Clients []string // that have an entry for the address
	Next    string   // an address that is free, "" if it is not known
}

// checkPort reports that the address is in use.
func checkPort(x *findings, p *Port) {
	if p == nil {
		return
	}
	problem := fmt.Sprintf("%s listens at %s", p.Holder, p.Address)
	if p.Set {
		problem += `, the "http.addr" of the configuration`
	}
	if p.Router {
		problem += ": a router that does not answer for this configuration"
	}
	problem += ", so 'metarouter serve --http' can't start there."
	who := strings.Join(p.Clients, " and ")
	if who != "" {
		problem += fmt.Sprintf(" %s %s an entry for this address.", who, map[bool]string{true: "has", false: "have"}[len(p.Clients) == 1])
	}
	var fixes []string
	if p.End != "" {
		fixes = append(fixes, "end that program: "+p.End)
	}
	if p.Next != "" {
		move := fmt.Sprintf(`write another address: "metarouter": {"http": {"addr": %q}}`, p.Next)
		if _, port, err := net.SplitHostPort(p.Next); err == nil && who != "" {
			move += fmt.Sprintf(`, and into the entry of %s: "url": "http://127.0.0.1:%s/mcp"`, who, port)
		}
		fixes = append(fixes, move)
	}
	if len(fixes) == 0 {
		fixes = []string{`end that program, or write another port into "metarouter": {"http": {"addr": "…"}}`}
	}
	x.add(Warning, problem, strings.Join(fixes, "; or "))
}
