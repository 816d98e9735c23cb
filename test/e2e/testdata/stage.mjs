// A server for screenshots: it lists the tools of the server that its argument names, and
// takes as long for a call as such a server would.
import { createInterface } from "node:readline";

const text = (description) => ({ type: "string", description });
const reads = { readOnlyHint: true, idempotentHint: true };
const casts = {
  playwright: { about: 220, fails: 0.03, tools: [
    ["browser_navigate", "Navigate to a URL in the browser", { url: text("The address to open") }, ["url"], { openWorldHint: true, destructiveHint: false }],
    ["browser_snapshot", "Capture an accessibility snapshot of the current page; better than a screenshot for choosing what to do next", {}, [], reads],
    ["browser_click", "Click an element on the page", { element: text("What it is, in words"), ref: text("Its reference in the snapshot") }, ["ref"], { destructiveHint: true }],
    ["browser_type", "Type text into an editable element", { ref: text("Its reference in the snapshot"), text: text("What to type") }, ["ref", "text"], { destructiveHint: true }],
    ["browser_take_screenshot", "Take a screenshot of the current page", { fullPage: { type: "boolean" } }, [], reads],
    ["browser_console_messages", "Return all console messages of the page", {}, [], reads],
  ] },
  memory: { about: 6, fails: 0, tools: [
    ["create_entities", "Create new entities in the knowledge graph", { entities: { type: "array", items: { type: "object" } } }, ["entities"], {}],
    ["add_observations", "Add observations to entities of the knowledge graph", { observations: { type: "array", items: { type: "object" } } }, ["observations"], {}],
    ["search_nodes", "Search for nodes in the knowledge graph by a query", { query: text("Words to search for") }, ["query"], reads],
    ["read_graph", "Read the entire knowledge graph", {}, [], reads],
    ["delete_entities", "Delete entities and their relations from the knowledge graph", { entityNames: { type: "array", items: { type: "string" } } }, ["entityNames"], { destructiveHint: true }],
  ] },
  postgres: { about: 18, fails: 0.02, tools: [
    ["query", "Run a read-only SQL query", { sql: text("One statement") }, ["sql"], reads],
    ["list_tables", "List the tables of a schema, with their columns", { schema: text("Name of the schema") }, [], reads],
    ["explain", "Explain how the database would run a query", { sql: text("One statement") }, ["sql"], reads],
  ] },
  sentry: { about: 340, fails: 0.01, tools: [
    ["search_issues", "Search for issues of a project by status, level or text", { query: text("Sentry's search syntax"), project: text("Slug of the project") }, ["query"], reads],
    ["get_issue_details", "Stack trace, tags and last events of an issue", { issueId: text("Such as PROJECT-123") }, ["issueId"], reads],
    ["resolve_issue", "Mark an issue as resolved", { issueId: text("Such as PROJECT-123") }, ["issueId"], { destructiveHint: false }],
  ] },
  context7: { about: 480, fails: 0, tools: [
    ["resolve-library-id", "Resolve a package name to a library ID", { libraryName: text("Name of the package") }, ["libraryName"], reads],
    ["get-library-docs", "Fetch current documentation of a library", { libraryId: text("As resolved"), topic: text("What to focus on") }, ["libraryId"], reads],
  ] },
  "sequential-thinking": { about: 2, fails: 0, tools: [
    ["sequentialthinking", "Think in steps that can be revised", { thought: text("The current step"), totalThoughts: { type: "integer", minimum: 1 } }, ["thought"], reads],
  ] },
  linear: { about: 150, fails: 0.01, tools: [
    ["list_issues", "List issues by team, state or assignee", { team: text("Name or ID"), state: text("Such as In Progress") }, [], reads],
    ["create_issue", "Create an issue", { title: text("Title"), team: text("Name or ID"), description: text("Markdown") }, ["title", "team"], {}],
    ["update_issue", "Change an issue", { id: text("ID") }, ["id"], {}],
  ] },
};

const { about, fails, tools } = casts[process.argv[2]];
const say = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...result })}\n`);
console.error(`${process.argv[2]} MCP server running on stdio`);
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  switch (method) {
    case "initialize":
      return say(id, { result: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: process.argv[2], version: "1.4.2" } } });
    case "ping":
      return say(id, { result: {} });
    case "tools/list":
      return say(id, { result: { tools: tools.map(([name, description, properties, required, annotations]) => ({ name, description, annotations, inputSchema: { type: "object", properties, required } })) } });
    case "tools/call": {
      const wrong = Math.random() < fails;
      const took = about * Math.exp((Math.random() + Math.random() + Math.random() - 1.5) * 1.4); // long tailed
      const words = wrong ? "Timeout 5000ms exceeded." : "All is well. ".repeat(1 + Math.random() * 300);
      return setTimeout(() => say(id, { result: { content: [{ type: "text", text: words }], isError: wrong } }), took);
    }
    default:
      return say(id, { error: { code: -32601, message: `Method not found: ${method}` } });
  }
}).on("close", () => process.exit());
