package selector

import (
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/script"
)

// A Call is one execution of one tool: Tool and its Arguments, a JSON object. The other
// fields are for routers that call on behalf of a client.
type Call = execute.Call

// A Checked is arguments that were compared with a tool's schema: as the server gets
// them, and a sentence for each fault. Without Faults they fit; a comparison that was given up
// has one that says why, and Unchecked.
type Checked = execute.Checked

// A Result is the answer to a Call: JSON is the server's CallToolResult with our members
// in its _meta. Text, Structured and Meta return its parts. Err says why no tool answered.
type Result = execute.Result

// An Execution is one call of a tool that has ended, for an [Observer].
type Execution = execute.Execution

// A Script is a program in JavaScript that calls tools.
type Script = script.Script

// A ScriptOutcome is the outcome of a script.
type ScriptOutcome = script.Outcome
