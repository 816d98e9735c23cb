// The official TypeScript SDK as a client over stdio. It must lie beside the
// node_modules that the lock file installs.
//
//   node client.mjs COMMAND_JSON [TOOL ARGUMENTS_JSON]
//
// COMMAND_JSON is ["command", "arg", …] of a server. Lists every tool, calls TOOL
// if one is named, and prints one line of JSON:
//
//   {"protocolVersion", "serverInfo", "tools": [names], "result"?, "error"?: {"code","message","data"}}
//
// error is the call's JSON-RPC error. Whatever else goes wrong, a list that the
// SDK's schemas refuse among it, ends it with status 1 and the reason on stderr.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'

const [command, tool, args] = process.argv.slice(2)
const [path, ...rest] = JSON.parse(command)

const transport = new StdioClientTransport({ command: path, args: rest, env: process.env, stderr: 'inherit' })
const client = new Client({ name: 'mcptest', version: '1' })
// The transport doesn't tell what was agreed on unless it is asked to remember.
let protocolVersion
transport.setProtocolVersion = (v) => { protocolVersion = v }

await client.connect(transport)
const tools = []
let cursor
do {
  const page = await client.listTools({ cursor })
  tools.push(...page.tools.map((t) => t.name))
  cursor = page.nextCursor
} while (cursor !== undefined)

const answer = { protocolVersion, serverInfo: client.getServerVersion(), tools }
if (tool) {
  try {
    answer.result = await client.callTool({ name: tool, arguments: JSON.parse(args ?? '{}') })
  } catch (e) {
    if (!(e instanceof McpError)) throw e
    answer.error = { code: e.code, message: e.message, data: e.data }
  }
}
console.log(JSON.stringify(answer))
await client.close()
