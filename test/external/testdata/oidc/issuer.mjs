// An issuer for tests: oidc-provider, with all that MCP servers and their clients use of it, and
// with short lives. Its first line on stdin is JSON, of which all but life may be absent:
//
//   life        how long access tokens live, in seconds
//   scopes      of access tokens
//   resources   what the URLs of resources begin with; tokens for others are refused
//   format      of access tokens, "jwt" or "opaque"
//   groups      {"ann": ["devs"]}: what "groups" says in the access tokens of users
//   jwks        private keys, of which the first one signs
//
// It writes its URL to stdout as a line. Each later line is a command, answered with the line "done":
//
//   {"jwks": …}    other keys
//   {"down": …}    whether it closes each connection
//
// It ends with its stdin. Any name and password log in, on the provider's own pages. The client
// "resource-server", with the secret "resource-secret", may introspect all tokens.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider, { errors } from "oidc-provider";

// The provider does not export its store, which has to outlive a change of keys.
const { createMemoryAdapter } = await import(new URL("node_modules/oidc-provider/lib/adapters/memory_adapter.js", import.meta.url));

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { life, scopes = ["tools:call", "tools:list"], resources = "", format = "opaque", groups = {}, jwks } = JSON.parse((await lines.next()).value);
const adapter = createMemoryAdapter();

function handler(issuer, jwks) {
  const provider = new Provider(issuer, {
    adapter,
    ...(jwks && { jwks }),
    clients: [
      {
        client_id: "resource-server",
        client_secret: "resource-secret",
        grant_types: [],
        redirect_uris: [],
        response_types: [],
      },
    ],
    cookies: { keys: ["only for tests"] },
    extraTokenClaims: (_ctx, token) => groups[token.accountId] && { groups: groups[token.accountId] },
    features: {
      deviceFlow: { enabled: true },
      introspection: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => {
          if (!resource.startsWith(resources)) throw new errors.InvalidTarget();
          return {
            scope: scopes.join(" "),
            audience: resource,
            accessTokenTTL: life,
            accessTokenFormat: format,
            ...(jwks && { jwt: { sign: { alg: jwks.keys[0].alg, kid: jwks.keys[0].kid } } }),
          };
        },
      },
    },
    // A refresh token works once. If it comes again, all tokens of its login are revoked.
    rotateRefreshToken: true,
    scopes: ["openid", "offline_access", ...scopes],
    ttl: { DeviceCode: 60, Grant: 600, Interaction: 60, RefreshToken: 600, Session: 600 },
  });
  return provider.callback();
}

const server = createServer();
let down = false;
server.on("connection", (socket) => down && socket.destroy());
server.listen(0, "127.0.0.1", async () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let handle = handler(issuer, jwks);
  server.on("request", (request, response) => handle(request, response));
  console.log(issuer);
  for await (const line of lines) {
    const command = JSON.parse(line);
    if (command.jwks) handle = handler(issuer, command.jwks);
    if (command.down !== undefined) {
      down = command.down;
      if (down) server.closeAllConnections();
    }
    console.log("done");
  }
  process.exit(0);
});
