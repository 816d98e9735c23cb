package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// asker is who asks, as clients show it.
const asker = "metarouter"

// noFields is the form of a question that is answered by accepting or declining it, and allFields also by agreeing to more.
var (
	noFields  = json.RawMessage(`{"type":"object","properties":{}}`)
	allFields = json.RawMessage(`{"type":"object","properties":{"all":{"type":"boolean","title":"All further calls of this tool by the script, too","default":false}}}`)
)

// An Asker is a client of the router itself, such as a command, that asks its person in its own way.
type Asker interface {
	session.Client
	Person() Person // nil if the client can't ask
}

// PersonAt returns the person at a client. It asks by elicitation, unless the client is an [Asker];
// nil if the client can't ask. from may be nil. The person may agree to all such calls of a script.
func PersonAt(from session.Client, script string) Person {
	if own, ok := session.As[Asker](from); ok {
		return own.Person()
	}
	if from == nil || !session.ShowsForms(from.Capabilities()) {
		return nil
	}
	fields := noFields
	if script != "" {
		fields = allFields
	}
	return func(ctx context.Context, question string) (Answer, error) {
		result, err := from.Ask(ctx, asker, session.Message{Method: "elicitation/create", Params: wire.Marshal(map[string]any{
			"mode": "form", "message": question, "requestedSchema": fields,
		})})
		if _, unable := errors.AsType[*session.Error](err); err != nil && !unable {
			err = fmt.Errorf("the question to the person at the client failed: %w; send the call again when a person can answer", err)
		}
		if err != nil {
			return "", err
		}
		switch said := Answer(wire.Text(result, "action")); {
		case said == Accept && script != "" && string(wire.Member(wire.Member(result, "content"), "all")) == "true":
			return AcceptAll, nil
		case said == Accept, said == Decline:
			return said, nil
		}
		return Cancel, nil
	}
}
