// What a newcomer writes against a router over HTTP, with Node 20 and nothing else.
//
//	node client.mjs http://127.0.0.1:8787
//
// It calls the bundled utilities as plain JSON-RPC and in the style of REST, makes
// one mistake for each error code, and prints a line per step. The first answer
// that is not as promised ends it with exit code 1, and a line that says which.

const base = process.argv[2].replace(/\/$/, "");

// Of each utility: its arguments, and what its result must contain.
const calls = {
  unit_convert: { with: { value: 5, from_unit: "km", to_unit: "mi" }, has: "3.10" },
  jsonschema_validate: { with: { schema: { type: "integer" }, data: "seven" }, has: "integer" },
};
const wrong = { name: "utilities__unit_convert", arguments: { value: "five", from_unit: "km" } }; // not a number, and no to_unit
const impossible = { name: "utilities__unit_convert", arguments: { value: 5, from_unit: "km", to_unit: "kg" } }; // the tool itself fails

const show = (v) => JSON.stringify(v);
const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

function must(holds, what) {
  if (!holds) throw new Error(what);
}

// Makes a request and returns status, headers and the JSON of the answer.
async function http(method, path, body) {
  const answer = await fetch(base + path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await answer.text();
  const kind = answer.headers.get("content-type") ?? "none";
  must(kind.split(";")[0] === "application/json", `HTTP ${answer.status} with content type ${kind}: ${text.slice(0, 200)}`);
  try {
    return { status: answer.status, headers: answer.headers, json: JSON.parse(text) };
  } catch {
    throw new Error(`HTTP ${answer.status} with a body that is no JSON: ${text.slice(0, 200)}`);
  }
}

// Posts a plain JSON-RPC message and returns the message that answers it.
async function rpc(body) {
  const { headers, json } = await http("POST", "/mcp", body);
  must(isObject(json) && json.jsonrpc === "2.0", `no JSON-RPC message: ${show(json)}`);
  must(!headers.has("mcp-session-id"), "plain JSON-RPC was given a session");
  return json;
}

async function rpcResult(method, params) {
  const message = await rpc({ jsonrpc: "2.0", id: method, method, params });
  must(message.id === method, `id ${show(message.id)} answers id ${show(method)}`);
  must(isObject(message.result), `no result: ${show(message)}`);
  return message.result;
}

async function restResult(method, body = {}) {
  const { status, json } = await http("POST", `/mcp/${method}`, body);
  must(status === 200, `HTTP ${status}: ${show(json)}`);
  must(isObject(json) && !("jsonrpc" in json) && !("result" in json), `not the bare result: ${show(json)}`);
  return json;
}

function checkError(error, codes) {
  must(isObject(error), `no error: ${show(error)}`);
  must(codes.includes(error.code), `error ${show(error)}, not one of ${codes}`);
  must(typeof error.message === "string" && error.message !== "", `an error without a message: ${show(error)}`);
}

async function checkRPCError(body, code, id) {
  const message = await rpc(body);
  must(!("result" in message), `a result: ${show(message)}`);
  checkError(message.error, [code]);
  must(message.id === id, `id ${show(message.id)} answers id ${show(id)}`);
}

async function checkRESTError(method, body, codes, want) {
  const { status, json } = await http("POST", `/mcp/${method}`, body);
  must(isObject(json), `no object: ${show(json)}`);
  checkError(json.error, codes);
  must(status === want, `HTTP ${status}, not ${want}, with ${show(json)}`);
}

function checkInitialized(result) {
  must(/^\d{4}-\d\d-\d\d$/.test(result.protocolVersion), `protocolVersion ${show(result.protocolVersion)}`);
  must(isObject(result.capabilities), `capabilities ${show(result.capabilities)}`);
  const info = result.serverInfo;
  must(isObject(info) && typeof info.name === "string" && typeof info.version === "string", `serverInfo ${show(info)}`);
}

// Lists the tools of all pages, by name.
async function listTools(ask) {
  const tools = new Map();
  for (let params = {}; params; ) {
    const result = await ask("tools/list", params);
    must(Array.isArray(result.tools), `tools ${show(result.tools)}`);
    for (const tool of result.tools) {
      must(/^[a-zA-Z0-9_-]{1,47}$/.test(tool.name), `a tool named ${show(tool.name)}`);
      tools.set(tool.name, tool);
    }
    params = result.nextCursor && { cursor: result.nextCursor };
  }
  for (const name in calls) must(tools.has(`utilities__${name}`), `no utilities__${name} among ${[...tools.keys()].sort()}`);
  return tools;
}

function checkSchema(tool) {
  const schema = tool.inputSchema;
  must(schema?.type === "object", `inputSchema ${show(schema)}`);
  must(show(schema.required?.toSorted()) === show(["from_unit", "to_unit", "value"]), `required ${show(schema.required)}`);
  must(schema.properties?.value?.type === "number", `properties ${show(schema.properties)}`);
}

const isText = (v) => typeof v === "string" && v !== "";
const isTime = (v) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$/.test(v) && !Number.isNaN(Date.parse(v));
const traces = new Set();

function checkMeta(result, tool) {
  const meta = result._meta;
  must(isObject(meta), `_meta ${show(meta)}`);
  for (const [field, right] of Object.entries({
    trace_id: isText,
    tool_name: (v) => v === tool,
    tool_version: isText,
    server: (v) => v === "utilities",
    node_id: isText,
    execution_path: (v) => Array.isArray(v) && show(v) === show(["local"]),
    verified: (v) => v === false,
    arguments_checked: (v) => typeof v === "boolean",
    degraded: (v) => typeof v === "boolean",
    attempts: (v) => Number.isInteger(v) && v >= 1,
    latency_ms: (v) => Number.isInteger(v) && v >= 0,
    timestamp: isTime,
  })) {
    must(field in meta, `_meta without ${field}: ${show(meta)}`);
    must(right(meta[field]), `_meta.${field} is ${show(meta[field])}`);
  }
  must(!traces.has(meta.trace_id), `two calls have the trace_id ${meta.trace_id}`);
  traces.add(meta.trace_id);
}

function checkCall(result, tool) {
  must(!result.isError, `the tool failed: ${show(result)}`);
  must(Array.isArray(result.content) && result.content.length > 0, `content ${show(result.content)}`);
  const text = result.content.map((c) => (c.type === "text" ? c.text : "")).join("");
  const { has } = calls[tool];
  must(text.includes(has), `${show(has)} is not in ${show(text)}`);
  checkMeta(result, tool);
}

function checkFailedCall(result, tool) {
  must(result.isError === true, `no isError: ${show(result)}`);
  checkMeta(result, tool);
}

let count = 0;
async function step(name, run) {
  try {
    await run();
  } catch (e) { // whatever goes wrong, such as a field of another type, is a violation
    console.log(`violation: ${name}: ${e.message}${e.cause ? ` (${e.cause})` : ""}`);
    process.exit(1);
  }
  console.log(`ok: ${name}`);
  count++;
}

await step("health", async () => {
  const { status, json } = await http("GET", "/health");
  must(status === 200, `HTTP ${status}: ${show(json)}`);
  for (const field of ["status", "categories", "model", "index_size", "servers", "tools"]) must(field in json, `no ${field}: ${show(json)}`);
});

const isOK = (result) => must(show(result) === show({ status: "ok" }), `${show(result)} is not {"status":"ok"}`);

await step("initialize", async () => checkInitialized(await rpcResult("initialize", { protocolVersion: "2025-11-25", clientInfo: { name: "newcomer", version: "1" } })));
await step("tools/list", () => listTools(rpcResult));
await step("schema of unit_convert", async () => checkSchema((await listTools(rpcResult)).get("utilities__unit_convert")));
for (const tool in calls) {
  await step(`tools/call ${tool}`, async () => checkCall(await rpcResult("tools/call", { name: `utilities__${tool}`, arguments: calls[tool].with }), tool));
}
for (const name of ["utilities:unit_convert", "utilities.unit_convert", "unit_convert"]) {
  await step(`tools/call by the name ${name}`, async () => checkCall(await rpcResult("tools/call", { name, arguments: calls.unit_convert.with }), "unit_convert"));
}
await step("tools/call that fails", async () => checkFailedCall(await rpcResult("tools/call", impossible), "unit_convert"));
await step("ping", async () => isOK(await rpcResult("ping")));
await step("a request without jsonrpc", async () => isOK((await rpc({ id: 1, method: "ping" })).result));
await step("-32700 for what is no JSON", () => checkRPCError('{"jsonrpc": "2.0", "id": 1,', -32700, null));
await step("-32600 for what has no method", () => checkRPCError({ jsonrpc: "2.0", id: 2, params: {} }, -32600, 2));
await step("-32601 for an unknown method", () => checkRPCError({ jsonrpc: "2.0", id: 3, method: "tools/juggle" }, -32601, 3));
await step("-32602 for arguments that do not fit the schema", () => checkRPCError({ jsonrpc: "2.0", id: 4, method: "tools/call", params: wrong }, -32602, 4));

await step("REST: initialize", async () => checkInitialized(await restResult("initialize")));
await step("REST: tools/list", () => listTools(restResult));
await step("REST: tools/list with params", () => listTools((method, params) => restResult(method, { params })));
await step("REST: schema of unit_convert", async () => checkSchema((await listTools(restResult)).get("utilities__unit_convert")));
for (const tool in calls) {
  await step(`REST: tools/call ${tool}`, async () => checkCall(await restResult("tools/call", { name: `utilities__${tool}`, arguments: calls[tool].with }), tool));
}
await step("REST: tools/call that fails", async () => checkFailedCall(await restResult("tools/call", impossible), "unit_convert"));
await step("REST: ping", () => restResult("ping"));
await step("REST: -32700, HTTP 400", () => checkRESTError("tools/list", "{", [-32700], 400));
await step("REST: params that are no object, HTTP 400", () => checkRESTError("tools/list", [], [-32600, -32602], 400));
await step("REST: -32601, HTTP 404", () => checkRESTError("tools/juggle", {}, [-32601], 404));
await step("REST: -32602, HTTP 400", () => checkRESTError("tools/call", wrong, [-32602], 400));

console.log(`${count} steps passed`);
