//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// clientScenarios are the scenarios of the official suite in which a client behind the
// router can do what is asked, and what each checks of the router's own client
// towards the server.
var clientScenarios = map[string]struct {
	revisions []string
	drive     func(*driver) error
}{
	// initialize has a known version, clientInfo and capabilities, though the
	// server answers server/discover with an empty result.
	"initialize": {both[:1], (*driver).list},
	// A call arrives with its arguments as numbers.
	"tools_call": {both, (*driver).addNumbers},
	// The client's answer to elicitation/create, defaults and all, reaches the
	// server that asked.
	"elicitation-sep1034-client-defaults": {both[:1], (*driver).elicitDefaults},
	// A call's stream that ends without an answer is taken up again by GET with
	// Last-Event-ID, after the server's retry time and not earlier.
	"sse-retry": {both[:1], (*driver).reconnect},
	// Every schema keyword survives.
	"json-schema-2020-12-preservation": {both, (*driver).echoSchema},
	// Each request has the version header and _meta, and another version is
	// agreed upon after -32022.
	"request-metadata": {both[1:], (*driver).list},
	// Mcp-Method and Mcp-Name are right on tools, resources and prompts.
	"http-standard-headers": {both[1:], (*driver).useEverything},
	// Arguments marked x-mcp-header are mirrored, encoded, and left out if null.
	"http-custom-headers": {both[1:], (*driver).callsOfContext},
	// Tools whose x-mcp-header is wrong are left out, and only those.
	"http-invalid-tool-headers": {both[1:], (*driver).callAll},
	// requestState comes back unchanged with a new id, and nowhere else.
	"sep-2322-client-request-state": {both[1:], (*driver).callAll},
	// No $ref is fetched.
	"json-schema-ref-no-deref": {both[1:], (*driver).list},
}

var both = []string{"2025-11-25", "2026-07-28"}

// The router as the client under test, for clients of both eras: in layer 2 for those of the revision's own.
func TestConformanceClient(t *testing.T) {
	t.Parallel()
	for scenario, s := range clientScenarios {
		for _, revision := range s.revisions {
			for _, era := range []string{"legacy", "modern"} {
				if !layer.Everything() && (era == "modern") != (revision == both[1]) {
					continue
				}
				t.Run(scenario+"/"+revision+"/"+era, func(t *testing.T) {
					t.Parallel()
					// A shell takes the command apart.
					self, err := os.Executable()
					expect.OK(t, err)
					command := fmt.Sprintf("env %s=%s %s=%s %s -test.run=TestConformanceDriver", builtVariable, metarouter, eraVariable, era, self)
					result := external.ClientConformance(t, command, scenario, revision)
					for _, failed := range result.Failed() {
						t.Error(failed)
					}
					if result.Passed() == 0 {
						t.Error("no check passed")
					}
				})
			}
		}
	}
}

const eraVariable = "METAROUTER_E2E_ERA"

// TestConformanceDriver is the command that the suite starts: this test binary, with the URL of the
// suite's server as the only argument.
func TestConformanceDriver(t *testing.T) {
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if scenario == "" {
		t.Skip("this is no test: the conformance suite runs it")
	}
	// Arguments that a schema forbids are part of some scenarios.
	server := map[string]any{"type": "http", "url": flag.Arg(0), "validate": "off"}
	s := prepare(t, entries{"suite": server}, map[string]any{"listWait": "60s"})
	router := s.start("--mode", "direct", "--names", "bare")
	d := &driver{
		ctx:     within(t),
		session: open(t, router, router.Notifications, os.Getenv(eraVariable), `{"elicitation":{},"roots":{}}`, answerElicitation),
	}
	expect.OK(t, clientScenarios[scenario].drive(d), "%s", router.Stderr())
	expect.OK(t, router.Close())
}

// answerElicitation fills in the defaults, and confirms members without one.
func answerElicitation(method string, params json.RawMessage) json.RawMessage {
	if method == "roots/list" {
		return json.RawMessage(`{"roots":[]}`)
	}
	var p struct {
		RequestedSchema struct {
			Properties map[string]struct{ Default any }
		}
	}
	json.Unmarshal(params, &p)
	content := map[string]any{}
	for name, property := range p.RequestedSchema.Properties {
		content[name] = property.Default
		if property.Default == nil {
			content[name] = true
		}
	}
	answer, err := json.Marshal(map[string]any{"action": "accept", "content": content})
	if err != nil {
		panic(err)
	}
	return answer
}

type driver struct {
	ctx context.Context
	*session
}

func (d *driver) tools() ([]json.RawMessage, error) {
	return mcptest.List(d.ctx, d, "tools/list", "tools")
}

func (d *driver) list() error {
	_, err := d.tools()
	return err
}

func (d *driver) callOne(tool string, arguments any) error {
	if err := d.list(); err != nil {
		return err
	}
	_, err := d.call(d.ctx, tool, arguments)
	return err
}

func (d *driver) addNumbers() error {
	return d.callOne("add_numbers", map[string]any{"a": 5, "b": 3})
}
func (d *driver) reconnect() error { return d.callOne("test_reconnection", map[string]any{}) }
func (d *driver) elicitDefaults() error {
	return d.callOne("test_client_elicitation_defaults", map[string]any{})
}

func (d *driver) callAll() error {
	tools, err := d.tools()
	if err != nil {
		return err
	}
	for _, definition := range tools {
		var tool struct{ Name string }
		json.Unmarshal(definition, &tool)
		if _, err := d.call(d.ctx, tool.Name, map[string]any{"region": "us-west1"}); err != nil {
			return fmt.Errorf("%s: %w", tool.Name, err)
		}
	}
	return nil
}

func (d *driver) callsOfContext() error {
	var context struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &context); err != nil {
		return err
	}
	for _, c := range context.ToolCalls {
		if err := d.callOne(c.Name, c.Arguments); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) echoSchema() error {
	tools, err := d.tools()
	if err != nil {
		return err
	}
	for _, definition := range tools {
		var tool struct {
			Name        string
			InputSchema json.RawMessage
		}
		json.Unmarshal(definition, &tool)
		if tool.Name == "json_schema_2020_12_tool" {
			_, err := d.call(d.ctx, "json_schema_echo", map[string]any{"schema": tool.InputSchema})
			return err
		}
	}
	return fmt.Errorf("json_schema_2020_12_tool is not among the tools %s", tools)
}

// useEverything uses the first tool, the first resource and the first prompt.
func (d *driver) useEverything() error {
	for _, use := range []struct{ list, member, key, method string }{
		{"tools/list", "tools", "name", "tools/call"},
		{"resources/list", "resources", "uri", "resources/read"},
		{"prompts/list", "prompts", "name", "prompts/get"},
	} {
		items, err := mcptest.List(d.ctx, d, use.list, use.member)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return fmt.Errorf("%s is empty", use.list)
		}
		var first map[string]any
		json.Unmarshal(items[0], &first)
		if _, err := d.ask(d.ctx, use.method, map[string]any{use.key: first[use.key]}); err != nil {
			return fmt.Errorf("%s: %w", use.method, err)
		}
	}
	return nil
}
