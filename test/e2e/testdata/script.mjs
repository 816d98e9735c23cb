// The official TypeScript SDK as a client that runs a script: version 1 in the legacy era, version 2 in the modern
// one. It must lie beside the node_modules that the tests install.
//
//	node script.mjs ERA COMMAND_JSON CODE
//
// It answers each question of its person with yes, and prints {"revision", "questions": [messages], "result"} as a line of JSON.
const [era, command, code] = process.argv.slice(2)
const modern = era === 'modern'
const { Client } = await import(modern ? '@modelcontextprotocol/client' : '@modelcontextprotocol/sdk/client/index.js')
const { StdioClientTransport } = await import(`@modelcontextprotocol/${modern ? 'client/stdio' : 'sdk/client/stdio.js'}`)

const [path, ...args] = JSON.parse(command)
const transport = new StdioClientTransport({ command: path, args, env: process.env, stderr: 'inherit' })
const client = new Client({ name: 'script', version: '1' }, {
  capabilities: { elicitation: { form: {} } },
  ...(modern && { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
})
let revision
transport.setProtocolVersion = (v) => { revision = v }
const questions = []
const elicitation = modern ? 'elicitation/create' : (await import('@modelcontextprotocol/sdk/types.js')).ElicitRequestSchema
client.setRequestHandler(elicitation, async (request) => {
  questions.push(request.params.message)
  return { action: 'accept', content: {} }
})
await client.connect(transport)
const run = { name: 'run_script', arguments: { code } }
const result = await (client.callTool(run))
console.log(JSON.stringify({ revision: modern ? client.getNegotiatedProtocolVersion() : revision, questions, result }))
await client.close()
