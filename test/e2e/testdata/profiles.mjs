// The official TypeScript SDK as a client of a router, over stdio or HTTP. It must lie beside the
// node_modules that the tests install.
//
//	node profiles.mjs TARGET_JSON ALLOWED LOST HIDDEN MISSING
//
// TARGET_JSON is {"command": ["program", "arg", …]} or {"url": "…", "token": "…"}. The other
// arguments are names of tools. It lists everything, calls the tools, and prints that as a line
// of JSON. It lists tools again at each notifications/tools/list_changed. When the list has
// changed, it does everything once more.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'

const [target, allowed, lost, hidden, missing] = process.argv.slice(2)
const { command, url, token } = JSON.parse(target)

const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
  : new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env, stderr: 'inherit' })
const client = new Client({ name: 'profiles', version: '1' })
const listTools = async () => (await client.listTools()).tools.map((t) => t.name)

async function call(name) {
  try {
    return { result: await client.callTool({ name, arguments: {} }) }
  } catch (e) {
    if (!(e instanceof McpError)) throw e
    return { error: { code: e.code, message: e.message } }
  }
}

async function look() {
  console.log(JSON.stringify({
    tools: await listTools(),
    prompts: (await client.listPrompts()).prompts.map((p) => p.name),
    resources: (await client.listResources()).resources.map((r) => r.uri),
    allowed: await call(allowed),
    lost: await call(lost),
    hidden: await call(hidden),
    missing: await call(missing),
  }))
}

await client.connect(transport)
const before = String(await listTools())
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, async () => {
  if (String(await listTools()) !== before) resolve()
}))
await look()
await changed
await look()
await client.close()
