package configfile

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A NoConfiguration is the error that there is no configuration yet. It says which commands make one.
type NoConfiguration struct {
	found []clients.Found
}

// Missing returns a [NoConfiguration], with the clients of this machine that have servers.
func Missing() error {
	e := &NoConfiguration{}
	if p, err := clients.ThisPlace(); err == nil {
		folder, _ := os.Getwd()
		e.found = clients.Survey(p, folder)
	}
	return exit.Usage(e)
}

// IsMissing reports whether err says that there is no configuration yet.
func IsMissing(err error) bool {
	_, ok := errors.AsType[*NoConfiguration](err)
	return ok
}

func (e *NoConfiguration) Error() string {
	if len(e.found) == 0 {
		return "there is no configuration yet, and no client was found that has servers; begin with\n" +
			"  metarouter init --write\n" +
			"or add a server with 'metarouter add NAME --write -- COMMAND', or name a file with --config"
	}
	var b strings.Builder
	b.WriteString("there is no configuration yet; import the servers of a client:\n")
	for _, f := range e.found {
		fmt.Fprintf(&b, "  %s\n      %s\n", plain.Line(f.Command()), plain.Line(f.String()))
	}
	b.WriteString("or begin with the bundled servers, 'metarouter init --write', or name a file with --config")
	return b.String()
}

// Problem returns the error as a problem of the user's own file.
func (e *NoConfiguration) Problem(severity string) config.Problem {
	const what = "there is no configuration yet; type "
	p := config.Problem{Severity: severity, Fix: "metarouter init --write", Message: what + "'metarouter init --write', or add a server with 'metarouter add'"}
	p.File, _ = config.Own()
	if len(e.found) > 0 {
		p.Fix = plain.Line(e.found[0].Command())
		p.Message = fmt.Sprintf("%s'%s' to import %s, or 'metarouter init --write'", what, p.Fix, plain.Line(e.found[0].String()))
	}
	return p
}
