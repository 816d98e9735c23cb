package analysis

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestTakes(t *testing.T) {
	set := func(all ...Type) (s Types) {
		for _, x := range all {
			s = s.With(x)
		}
		return s
	}
	for _, tc := range []struct {
		schema         string
		takes, require Types
	}{
		{`{"properties":{"filePath":{"type":"string"},"limit":{"type":"integer"}},"required":["filePath"]}`, set(PathType), set(PathType)},
		{`{"properties":{"target":{"type":"string","format":"uri"}}}`, set(URLType), 0},
		{`{"properties":{"to":{"type":"array","items":{"type":"string","format":"email"}}},"required":["to"]}`, set(EmailType), set(EmailType)},
		{`{"properties":{"event":{"type":"object","properties":{"start":{"type":"string"}}}}}`, set(DateType), 0}, // nested once
		{`{"properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"sql":{"type":"string"}}}}}}}`, 0, 0},
		{`{"properties":{"to":{"type":"array","items":{"type":"object","properties":{"channel_id":{"type":"string"}}}}}}`, set(EmailType, ChannelType, IDType), 0},
		{`{"properties":{"amount":{"type":"number"},"issue_number":{"type":"integer"}}}`, set(NumberType, IDType), 0},
		{`{"properties":{"url":{"type":"boolean"}}}`, 0, 0},
		{`{"properties":{"selector":true,"owner":{"type":["string","null"]}}}`, set(SelectorType, UserType, NameType), 0},
		{`{"required":7,"properties":[]}`, 0, 0},
		{`7`, 0, 0},
	} {
		var schema any
		expect.OK(t, json.Unmarshal([]byte(tc.schema), &schema))
		if all, required := Takes(schema); all != tc.takes || required != tc.require {
			t.Errorf("%s: takes %b, requires %b; want %b and %b", tc.schema, all, required, tc.takes, tc.require)
		}
	}
}
