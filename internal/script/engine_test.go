package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
)

var engine *Engine

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "script")
	if err != nil {
		panic(err)
	}
	engine = New(dir)
	code := m.Run()
	_ = engine.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A fakeHost answers with functions; without one, it answers with the arguments.
type fakeHost struct {
	call func(ctx context.Context, c Call) (json.RawMessage, error)
}

func (h fakeHost) Call(ctx context.Context, c Call) (json.RawMessage, error) {
	if h.call != nil {
		return h.call(ctx, c)
	}
	return json.RawMessage(fmt.Sprintf(`{"structuredContent":%s}`, c.Arguments)), nil
}

func (fakeHost) Search(_ context.Context, task string) (json.RawMessage, error) {
	return json.Marshal([]string{"found for " + task})
}

func (fakeHost) Describe(_ context.Context, ids []string) (json.RawMessage, error) {
	if len(ids) == 0 {
		return nil, errors.New("describe: no ids")
	}
	return json.Marshal(fmt.Sprint(ids))
}
