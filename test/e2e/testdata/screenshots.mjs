// Takes the screenshots of the documentation: some clients call for five minutes, then
// the page is looked at. The first argument is JSON: modules, url, shots (a folder),
// browser, seconds.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { modules, url, shots, browser: executablePath, seconds } = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));

/** client connects as an MCP client of that name, and returns how it calls tools. */
async function client(name) {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  let id = 0;
  const send = async (method, params) => {
    const answer = await fetch(`${url}/mcp`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params }) });
    const session = answer.headers.get("Mcp-Session-Id");
    if (session) headers["Mcp-Session-Id"] = session;
    await answer.text();
  };
  await send("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name, version: "1" } });
  headers["MCP-Protocol-Version"] = "2025-11-25";
  return (tool, args) => send("tools/call", { name: "call_tool", arguments: { tool, arguments: args } });
}

const scenes = [
  ["playwright:browser_navigate", { url: "https://example.com" }], ["playwright:browser_snapshot", {}], ["playwright:browser_snapshot", {}], ["playwright:browser_click", { ref: "e12" }],
  ["memory:search_nodes", { query: "release" }], ["memory:read_graph", {}], ["postgres:query", { sql: "select 1" }], ["postgres:query", { sql: "select count(*) from orders" }],
  ["postgres:list_tables", { schema: "public" }], ["sentry:search_issues", { query: "is:unresolved" }],
  ["sequential-thinking:sequentialthinking", { thought: "First, look at the schema." }], ["files:read_file", { path: "README.md" }], ["files:list_directory", { path: "." }],
  ["utilities:unit_convert", { value: 5, from_unit: "km", to_unit: "mi" }], ["files:read_file", { file: "README.md" }], ["utilities:jsonschema_validate", { schema: { type: "integer" }, data: 7 }],
];

const end = Date.now() + seconds * 1000;
const clients = await Promise.all(["claude-code", "cursor", "claude-ai"].map(client));
const load = clients.map(async (call, i) => {
  for (let n = 0; Date.now() < end + 20_000; n++) {
    const [tool, args] = scenes[Math.floor(Math.random() * scenes.length)];
    await call(tool, args);
    const busy = 0.55 + 0.45 * Math.sin(Date.now() / 23_000 + i * 1.3); // people come and go
    await new Promise((resume) => setTimeout(resume, (80 + Math.random() * 500) / (busy + 0.12)));
  }
});
load.forEach((l) => l.catch((e) => { if (Date.now() < end) throw e; }));

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
const desk = await browser.newPage({ viewport: { width: 1280, height: 872 }, colorScheme: "light" });
await desk.goto(`${url}/`);
await desk.getByRole("button", { name: "Stop linear" }).click();
await new Promise((resume) => setTimeout(resume, end - Date.now())); // while the charts fill
const views = {
  servers: ["servers", async () => {}],
  tools: ["tools?q=search+for+unresolved+issues&tool=sentry%3Asearch_issues", (page) => page.locator(".hit summary").first().click({ timeout: 5000 }).catch(() => {})],
  calls: ["calls", (page) => page.locator("table.calls").waitFor()],
  clients: ["clients", async () => {}],
  configuration: ["configuration", async () => {}],
};
const take = async (page, suffix) => {
  for (const [name, [hash, prepare]] of Object.entries(views)) {
    await page.goto(`${url}/#${hash}`);
    await page.locator(`main.view-${hash.split("?")[0]}`).waitFor();
    await prepare(page);
    await page.mouse.move(0, 0);
    await page.waitForFunction(() => !document.querySelector(".notice") && new Promise((r) => setTimeout(() => r(true), 1500)));
    await page.screenshot({ path: join(shots, `dashboard-${name}${suffix}.png`) });
  }
};
await take(desk, "");
await desk.emulateMedia({ colorScheme: "dark" });
await take(desk, "-dark");
const phone = await browser.newPage({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark", hasTouch: true, isMobile: true });
await phone.goto(`${url}/`);
await phone.locator(".server").first().waitFor();
await take(phone, "-phone");
await browser.close();
process.exit(0);
