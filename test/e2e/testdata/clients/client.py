"""What a newcomer writes against a router over HTTP, with Python 3 and nothing else.

    python3 client.py http://127.0.0.1:8787

It calls the bundled utilities as plain JSON-RPC and in the style of REST, makes
one mistake for each error code, and prints a line per step. The first answer
that is not as promised ends it with exit code 1, and a line that says which.
"""

import json
import re
import sys
import time
import urllib.error
import urllib.request

BASE = sys.argv[1].rstrip("/")

CALLS = {  # of each utility: its arguments, and what its result must contain
    "unit_convert": ({"value": 5, "from_unit": "km", "to_unit": "mi"}, "3.10"),
    "jsonschema_validate": ({"schema": {"type": "integer"}, "data": "seven"}, "integer"),
}
WRONG = {"name": "utilities__unit_convert", "arguments": {"value": "five", "from_unit": "km"}}  # not a number, and no to_unit
IMPOSSIBLE = {"name": "utilities__unit_convert", "arguments": {"value": 5, "from_unit": "km", "to_unit": "kg"}}  # the tool itself fails


class Violation(Exception):
    pass


def must(holds, what):
    if not holds:
        raise Violation(what)


def http(method, path, body=None):
    """Makes a request and returns status, headers and the JSON of the answer."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as e:
        answer = e
    with answer:
        text = answer.read()
        kind = answer.headers.get("Content-Type", "none")
        must(kind.split(";")[0] == "application/json", f"HTTP {answer.status} with content type {kind}: {text[:200]!r}")
        try:
            return answer.status, answer.headers, json.loads(text)
        except ValueError:
            raise Violation(f"HTTP {answer.status} with a body that is no JSON: {text[:200]!r}")


def rpc(body):
    """Posts a plain JSON-RPC message and returns the message that answers it."""
    _, headers, message = http("POST", "/mcp", body)
    must(isinstance(message, dict) and message.get("jsonrpc") == "2.0", f"no JSON-RPC message: {message}")
    must("Mcp-Session-Id" not in headers, "plain JSON-RPC was given a session")
    return message


def rpc_result(method, params=None):
    request = {"jsonrpc": "2.0", "id": method, "method": method}
    if params is not None:
        request["params"] = params
    message = rpc(request)
    must(message.get("id") == method, f"id {message.get('id')!r} answers id {method!r}")
    must(isinstance(message.get("result"), dict), f"no result: {message}")
    return message["result"]


def rest_result(method, body=None):
    status, _, result = http("POST", "/mcp/" + method, {} if body is None else body)
    must(status == 200, f"HTTP {status}: {result}")
    must(isinstance(result, dict) and "jsonrpc" not in result and "result" not in result, f"not the bare result: {result}")
    return result


def check_error(error, codes):
    must(isinstance(error, dict), f"no error: {error}")
    must(error.get("code") in codes, f"error {error}, not one of {codes}")
    must(isinstance(error.get("message"), str) and error["message"] != "", f"an error without a message: {error}")


def check_rpc_error(body, code, id):
    message = rpc(body)
    must("result" not in message, f"a result: {message}")
    check_error(message.get("error"), {code})
    must("id" in message and message["id"] == id, f"id {message.get('id')!r} answers id {id!r}")


def check_rest_error(method, body, codes, want):
    status, _, answer = http("POST", "/mcp/" + method, body)
    must(isinstance(answer, dict), f"no object: {answer}")
    check_error(answer.get("error"), codes)
    must(status == want, f"HTTP {status}, not {want}, with {answer}")


def check_initialized(result):
    must(re.fullmatch(r"\d{4}-\d\d-\d\d", str(result.get("protocolVersion"))), f"protocolVersion {result.get('protocolVersion')!r}")
    must(isinstance(result.get("capabilities"), dict), f"capabilities {result.get('capabilities')!r}")
    info = result.get("serverInfo")
    must(isinstance(info, dict) and isinstance(info.get("name"), str) and isinstance(info.get("version"), str), f"serverInfo {info!r}")


def list_tools(ask):
    """Lists the tools of all pages, by name."""
    tools, params = {}, {}
    while True:
        result = ask("tools/list", params)
        must(isinstance(result.get("tools"), list), f"tools {result.get('tools')!r}")
        for tool in result["tools"]:
            must(re.fullmatch(r"[a-zA-Z0-9_-]{1,47}", tool["name"]), f"a tool named {tool['name']!r}")
            tools[tool["name"]] = tool
        if not result.get("nextCursor"):
            break
        params = {"cursor": result["nextCursor"]}
    for name in CALLS:
        must("utilities__" + name in tools, f"no utilities__{name} among {sorted(tools)}")
    return tools


def check_schema(tool):
    schema = tool.get("inputSchema")
    must(isinstance(schema, dict) and schema.get("type") == "object", f"inputSchema {schema!r}")
    must(sorted(schema.get("required", [])) == ["from_unit", "to_unit", "value"], f"required {schema.get('required')!r}")
    must(schema.get("properties", {}).get("value", {}).get("type") == "number", f"properties {schema.get('properties')!r}")


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def is_text(v):
    return isinstance(v, str) and v != ""


def is_time(v):
    if not isinstance(v, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", v):
        return False
    try:
        time.strptime(v[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return False
    return True


seen = set()  # trace IDs


def check_meta(result, tool):
    meta = result.get("_meta")
    must(isinstance(meta, dict), f"_meta {meta!r}")
    for field, right in {
        "trace_id": is_text,
        "tool_name": lambda v: v == tool,
        "tool_version": is_text,
        "server": lambda v: v == "utilities",
        "node_id": is_text,
        "execution_path": lambda v: v == ["local"],
        "verified": lambda v: v is False,
        "arguments_checked": lambda v: isinstance(v, bool),
        "degraded": lambda v: isinstance(v, bool),
        "attempts": lambda v: is_int(v) and v >= 1,
        "latency_ms": lambda v: is_int(v) and v >= 0,
        "timestamp": is_time,
    }.items():
        must(field in meta, f"_meta without {field}: {meta}")
        must(right(meta[field]), f"_meta.{field} is {meta[field]!r}")
    must(meta["trace_id"] not in seen, f"two calls have the trace_id {meta['trace_id']}")
    seen.add(meta["trace_id"])


def check_call(result, tool):
    must(not result.get("isError"), f"the tool failed: {result}")
    must(isinstance(result.get("content"), list) and result["content"], f"content {result.get('content')!r}")
    text = "".join(c["text"] for c in result["content"] if c["type"] == "text")
    _, has = CALLS[tool]
    must(has in text, f"{has!r} is not in {text!r}")
    check_meta(result, tool)


def check_failed_call(result, tool):
    must(result.get("isError") is True, f"no isError: {result}")
    check_meta(result, tool)


def check_health():
    status, _, health = http("GET", "/health")
    must(status == 200, f"HTTP {status}: {health}")
    for field in ["status", "categories", "model", "index_size", "servers", "tools"]:
        must(field in health, f"no {field}: {health}")


def steps():
    yield "health", check_health

    call = lambda name, tool: rpc_result("tools/call", {"name": name, "arguments": CALLS[tool][0]})
    yield "initialize", lambda: check_initialized(rpc_result("initialize", {"protocolVersion": "2025-11-25", "clientInfo": {"name": "newcomer", "version": "1"}}))
    yield "tools/list", lambda: list_tools(rpc_result)
    yield "schema of unit_convert", lambda: check_schema(list_tools(rpc_result)["utilities__unit_convert"])
    for tool in CALLS:
        yield f"tools/call {tool}", lambda: check_call(call("utilities__" + tool, tool), tool)
    for name in ["utilities:unit_convert", "utilities.unit_convert", "unit_convert"]:
        yield f"tools/call by the name {name}", lambda: check_call(call(name, "unit_convert"), "unit_convert")
    yield "tools/call that fails", lambda: check_failed_call(rpc_result("tools/call", IMPOSSIBLE), "unit_convert")
    yield "ping", lambda: must(rpc_result("ping") == {"status": "ok"}, "not {'status': 'ok'}")
    yield "a request without jsonrpc", lambda: must(rpc({"id": 1, "method": "ping"}).get("result") == {"status": "ok"}, "not {'status': 'ok'}")
    yield "-32700 for what is no JSON", lambda: check_rpc_error(b'{"jsonrpc": "2.0", "id": 1,', -32700, None)
    yield "-32600 for what has no method", lambda: check_rpc_error({"jsonrpc": "2.0", "id": 2, "params": {}}, -32600, 2)
    yield "-32601 for a method that nobody has", lambda: check_rpc_error({"jsonrpc": "2.0", "id": 3, "method": "tools/juggle"}, -32601, 3)
    yield "-32602 for arguments that do not fit the schema", lambda: check_rpc_error({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": WRONG}, -32602, 4)

    call = lambda name, tool: rest_result("tools/call", {"name": name, "arguments": CALLS[tool][0]})
    yield "REST: initialize", lambda: check_initialized(rest_result("initialize"))
    yield "REST: tools/list", lambda: list_tools(rest_result)
    yield "REST: tools/list with params", lambda: list_tools(lambda method, params: rest_result(method, {"params": params}))
    yield "REST: schema of unit_convert", lambda: check_schema(list_tools(rest_result)["utilities__unit_convert"])
    for tool in CALLS:
        yield f"REST: tools/call {tool}", lambda: check_call(call("utilities__" + tool, tool), tool)
    yield "REST: tools/call that fails", lambda: check_failed_call(rest_result("tools/call", IMPOSSIBLE), "unit_convert")
    yield "REST: ping", lambda: rest_result("ping")
    yield "REST: -32700, HTTP 400", lambda: check_rest_error("tools/list", b"{", {-32700}, 400)
    yield "REST: params that are no object, HTTP 400", lambda: check_rest_error("tools/list", [], {-32600, -32602}, 400)
    yield "REST: -32601, HTTP 404", lambda: check_rest_error("tools/juggle", {}, {-32601}, 404)
    yield "REST: -32602, HTTP 400", lambda: check_rest_error("tools/call", WRONG, {-32602}, 400)


count = 0
for name, step in steps():
    try:
        step()
    except Exception as e:  # whatever goes wrong, such as a field of another type, is a violation
        print(f"violation: {name}: {e if isinstance(e, Violation) else repr(e)}", flush=True)
        sys.exit(1)
    print(f"ok: {name}", flush=True)
    count += 1
print(f"{count} steps passed")
