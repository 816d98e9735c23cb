// The official TypeScript SDK as a client that knows nothing of a server but its URL, and logs in
// by itself. It must lie beside the node_modules that the tests install.
//
//	node oauth.mjs URL SCOPE TOOL...
//
// It writes each URL that a person has to visit to stdout as a line, and reads the URL at which
// the browser ends from stdin. Then it lists the tools, calls each TOOL, and prints a line of
// JSON: {"tools": […], "calls": [{"tool", "text"} or {"tool", "error"}], "scopes": […]}, of which the
// last ones are those of each login. SCOPE is what the first login asks for; "" leaves that to
// the SDK.
import { createInterface } from 'node:readline'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js'

const [url, scope, ...wanted] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const scopes = []

// A store in memory, as the SDK wants one.
const kept = {}
const authProvider = {
  redirectUrl: 'http://127.0.0.1:1/callback',
  clientMetadata: {
    client_name: 'oauth.mjs',
    redirect_uris: ['http://127.0.0.1:1/callback'],
    application_type: 'native',
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  clientInformation: () => kept.client,
  saveClientInformation: (v) => { kept.client = v },
  tokens: () => kept.tokens,
  saveTokens: (v) => { kept.tokens = v },
  saveCodeVerifier: (v) => { kept.verifier = v },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (v) => {
    if (scope && scopes.length === 0) v.searchParams.set('scope', scope)
    scopes.push(v.searchParams.get('scope'))
    console.log(v.href)
  },
}

let client, transport

async function connect() {
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider })
  client = new Client({ name: 'oauth', version: '1' })
  await client.connect(transport)
}

// Does it, and does it again after a login if one is needed. A session may end with the rights that
// it had; then "the client MUST start a new session".
async function withLogin(f) {
  try {
    return await f()
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e
  }
  const end = new URL((await lines.next()).value)
  await transport.finishAuth(end.searchParams.get('code'))
  try {
    return await f()
  } catch (e) {
    if (e.code !== 404) throw e
  }
  await connect()
  return await f()
}

await withLogin(connect)
const tools = (await withLogin(() => client.listTools())).tools.map((t) => t.name)
const calls = []
for (const tool of wanted) {
  try {
    const result = await withLogin(() => client.callTool({ name: tool, arguments: { message: 'hello' } }))
    calls.push({ tool, text: result.content[0].text })
  } catch (e) {
    calls.push({ tool, error: e.message })
  }
}
console.log(JSON.stringify({ tools, calls, scopes }))
process.exit(0)
