// An issuer for tests: oidc-provider, with all that MCP servers and their clients use of it, and
// with short lives. Its first line on stdin is JSON, of which all but life may be absent:
//
//   life        how long access tokens live, in seconds
//   scopes      of access tokens
//   resources   what the URLs of resources begin with; tokens for others are refused
//   format      of access tokens, "jwt" or "opaque"
//   groups      {"ann": ["devs"]}: what "groups" says in the access tokens of users
//
// It writes its URL to stdout as a line, and ends with its stdin. Any name and password log in, on
// the provider's own pages. The client "resource-server", with the secret "resource-secret", may
// introspect all tokens.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider, { errors } from "oidc-provider";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { life, scopes = ["tools:call", "tools:list"], resources = "", format = "opaque", groups = {} } = JSON.parse((await lines.next()).value);

function handler(issuer) {
  const provider = new Provider(issuer, {
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
server.listen(0, "127.0.0.1", async () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  server.on("request", handler(issuer));
  console.log(issuer);
  for await (const _ of lines);
  process.exit(0);
});
