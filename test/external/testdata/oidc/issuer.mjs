// An issuer for tests: oidc-provider, with all that remote MCP servers use of it, and with short
// lives. It writes its URL to stdout as a line, and ends with its stdin.
//
//   node issuer.mjs SECONDS     how long access tokens live
//
// Any name and password log in, on the provider's own pages. The client "resource-server", with the
// secret "resource-secret", may introspect all tokens.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const accessTokenTTL = Number(process.argv[2]);
const scope = "tools:call tools:list";

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
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
    features: {
      deviceFlow: { enabled: true },
      introspection: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope,
          audience: resource,
          accessTokenTTL,
          accessTokenFormat: "opaque",
        }),
      },
    },
    // A refresh token works once. If it comes again, all tokens of its login are revoked.
    rotateRefreshToken: true,
    scopes: ["openid", "offline_access", ...scope.split(" ")],
    ttl: { DeviceCode: 60, Grant: 600, Interaction: 60, RefreshToken: 600, Session: 600 },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});

process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
