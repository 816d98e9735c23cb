// Uses the dashboard as a person would, in a real browser. The first argument is JSON:
// modules (node_modules), url (of the router), config (its file), shots (a folder for
// screenshots of what went wrong), guarded and token (another router, and what it asks for),
// waiting (a router whose file has an edit that is not approved), and all (accessibility in each width with each theme).
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { modules, url, config, shots, guarded, token, waiting, all, browser: executablePath } = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));
const axe = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");

const patience = 120_000;
const evil = "<img src=x onerror=window.pwned=1>";

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(patience);
await context.addInitScript(() => {
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
});
const page = await context.newPage();

const complaints = []; // of the browser, which should have none
let silent = false; // while the network is broken on purpose
page.on("console", (m) => { if (["error", "warning"].includes(m.type()) && !silent) complaints.push(`console: ${m.text()}`); });
page.on("pageerror", (e) => complaints.push(`page: ${e.stack}`));
page.on("request", (r) => { if (![url, guarded, waiting].some((u) => r.url().startsWith(`${u}/`)) && !r.url().startsWith("data:")) complaints.push(`a request to ${r.url()}`); });

/** until waits for a condition. */
async function until(what, condition) {
  for (const end = Date.now() + patience; ;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
    await page.waitForTimeout(100);
  }
}

function check(is, what) {
  if (!is) throw new Error(what);
}

async function step(name, f) {
  const began = Date.now();
  try {
    await f();
    check(!complaints.length, complaints.join("\n"));
    const violations = await page.evaluate(() => window.violations);
    check(!violations.length, `the policy is violated: ${violations}`);
    console.log(`ok   ${name} (${Date.now() - began} ms)`);
  } catch (e) {
    console.log(`FAIL ${name}: ${e.stack}`);
    await page.screenshot({ path: join(shots, "failed.png") }).catch(() => {});
    console.log((await page.locator("body").innerText().catch(() => "")).slice(0, 3000));
    await browser.close();
    process.exit(1);
  }
}

/** go shows a view; the page stays the same one. */
const go = async (hash) => {
  await page.evaluate((h) => { location.hash = h; }, hash);
  await page.locator(`main.view-${hash.split("?")[0]}`).waitFor();
};

const server = (name) => page.locator(".server", { has: page.locator("h2", { hasText: new RegExp(`^\\s*${name}\\s*$`) }) });
const state = async (name) => (await server(name).locator(".state").innerText()).trim();
const focused = (selector) => page.evaluate((s) => document.activeElement.matches(s), selector);

/** tab presses the key until what has the focus matches. */
async function tab(selector, most = 80) {
  for (let i = 0; i < most; i++) {
    await page.keyboard.press("Tab");
    if (await focused(selector)) return;
  }
  throw new Error(`tab does not reach ${selector}`);
}

/** edit replaces the configuration as an editor does. */
function edit(change) {
  const text = change(readFileSync(config, "utf8"));
  writeFileSync(`${config}.new`, text);
  renameSync(`${config}.new`, config);
}

const editEntries = (change) => edit((text) => {
  const all = JSON.parse(text);
  change(all.mcpServers);
  return JSON.stringify(all, null, 2);
});

async function call(fill) {
  await fill?.();
  await page.locator("form.call button.primary").click();
}

const resultText = () => page.locator(".result pre").first().innerText();

await step("the page opens, and says how the servers are", async () => {
  await page.goto(`${url}/`);
  await until("all that can to be ready", async () => (await state("steady")) === "ready" && (await state("fragile")) === "ready" && (await state("utilities")) === "ready");
  await until("the broken server to fail", async () => (await state("broken")) === "failed");
  await until("the sentence", async () => /^4 of 5 servers work$/.test(await page.locator(".summary strong").innerText()));
  check(/calls\/s|in the last minute/.test(await page.locator(".summary .facts").innerText()), "the summary does not say when there were calls");
  check(await page.locator("#link").innerText() === "live", "it is not live");
  const first = page.locator(".server").first();
  check(/broken/.test(await first.innerText()), "the broken server does not come first");
  check(/is not on PATH|no such file|not found/.test(await first.innerText()), "why it failed is not said");
  check(/install it; if "which metarouter-no-such-command"/i.test(await first.innerText()), "what to do is not said");
});

await step("a server crashes, and comes back", async () => {
  await server("fragile").locator("button.name").click();
  const pid = Number(await server("fragile").locator(".pid").innerText());
  process.kill(pid, "SIGKILL");
  await until("it to be down", async () => (await state("fragile")) !== "ready");
  await until("a notice of it", async () => /fragile/.test(await page.locator("#notices").innerText()));
  await until("it to be back", async () => (await state("fragile")) === "ready");
  const now = Number(await server("fragile").locator(".pid").innerText());
  check(now > 0 && now !== pid, `the process is ${now}, and was ${pid}`);
  await until("the restart to be counted", async () => /1 restart/.test(await server("fragile").innerText()));
});

await step("a server is stopped and started", async () => {
  await server("steady").getByRole("button", { name: "Stop steady" }).click();
  await until("it to be off", async () => (await state("steady")) === "stopped by hand");
  await server("steady").getByRole("button", { name: "Start steady" }).click();
  await until("it to be on", async () => (await state("steady")) === "ready");
  await server("steady").getByRole("button", { name: "Restart steady" }).click();
  await until("the notice", async () => /steady is restarted/.test(await page.locator("#notices").innerText()));
});

await step("clients are listed", async () => {
  const send = async (headers, method, params) => {
    const answer = await fetch(`${url}/mcp`, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
    await answer.text();
    return answer.headers.get("Mcp-Session-Id");
  };
  const both = { Accept: "application/json, text/event-stream" };
  const calling = { name: "steady__echo", arguments: { message: "x" } };
  const older = { ...both, "Mcp-Session-Id": await send(both, "initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: `${evil}\u202e`, version: "1.2" } }) };
  for (let i = 0; i < 3; i++) await send(older, "tools/call", calling);
  await send({ ...both, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list" }, "tools/list", { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {}, "io.modelcontextprotocol/clientInfo": { name: "newer", version: "7" } } });
  await send({ "User-Agent": "curl/8.5.0" }, "tools/call", calling);
  await page.locator("nav a", { hasText: "Clients" }).click();
  const row = (text) => page.locator("table.clients tbody tr", { hasText: text });
  for (const [who, ...told] of [
    [evil, "1.2", "older revision 2025-06-18", "HTTP", "3 calls"], ["newer", "7", "2026-07-28", "HTTP", "no calls"], ["curl", "8.5.0", "plain JSON-RPC", "1 call"],
  ]) await until(`${who}: ${told}`, async () => { const text = await row(who).innerText(); return told.every((t) => text.includes(t)); });
  check(!(await row("newer").innerText()).includes("older"), "the newest revision is called older");
  check(!(await page.locator("table.clients").innerText()).includes("\u202e"), "a hidden character is shown");
  await fetch(`${url}/mcp`, { method: "DELETE", headers: older });
  await until("the client that left to go", async () => await row("older revision").count() === 0);
});

// send sends a request to one of a router's endpoints, and returns the text of the answer.
const send = async (endpoint, method, params, headers = {}) => {
  const answer = await fetch(endpoint, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
  return { text: await answer.text(), session: answer.headers.get("Mcp-Session-Id") };
};
const approval = (text) => page.locator(".approval:not(.over)", { hasText: text });

await step("a call waits for an approval, and passes once after it", async () => {
  await go("approvals");
  await page.locator(".empty").waitFor();
  const asking = (message) => send(`${url}/mcp/p/careful`, "tools/call", { name: "steady__echo", arguments: { message } }, { "User-Agent": "curl/8.5.0" });
  const first = `${evil}\u202e`;
  check(/#approvals/.test((await asking(first)).text), "the error does not name the view");
  await until("the count", async () => /^1\s+waiting$/.test(await page.locator("nav a[href='#approvals'] .count").innerText().catch(() => "")));
  const card = await approval("echo").innerText();
  for (const told of ["steady", "careful", "no token", 'profile "careful" asks before tools that match "echo"', `"message": "${evil}\\u202e"`]) {
    check(card.includes(told), `the page does not say ${told}: ${card}`);
  }
  check(/Expires in\s+[45] min/.test(card), `the page does not say when the call expires: ${card}`);
  await page.getByRole("button", { name: "Approve echo of steady" }).click();
  await page.locator(".approval.over", { hasText: "You approved this call." }).waitFor();
  await until("the focus to stay", () => focused(".approval"));
  check((await asking(first)).text.includes("onerror"), "the approved call does not pass");
  check(/#approvals/.test((await asking(first)).text), "the call passes twice");
  await approval("echo").getByRole("button", { name: /^Deny/ }).click();
  await page.locator(".approval.over", { hasText: "You denied this call." }).waitFor();
  check(/an admin \(on the router's page\) declined/.test((await asking(first)).text), "the denied call is not refused");
});

await step("a call whose client's person is asked too is approved on the page", async () => {
  const both = { Accept: "application/json, text/event-stream" };
  const { session } = await send(`${url}/mcp/p/careful`, "initialize", { protocolVersion: "2025-06-18", capabilities: { elicitation: {} }, clientInfo: { name: "person", version: "1" } }, both);
  const headers = { ...both, "Mcp-Session-Id": session };
  await fetch(`${url}/mcp/p/careful`, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) });
  const call = send(`${url}/mcp/p/careful`, "tools/call", { name: "steady__echo", arguments: { message: "asked twice" } }, headers);
  await until("the notice", async () => /echo of steady waits for an approval/.test(await page.locator("#notices").innerText()));
  check(/person is asked too/.test(await approval("asked twice").innerText()), "the page does not say that the client's person is asked");
  await approval("asked twice").getByRole("button", { name: /^Approve/ }).click();
  const answer = (await call).text.split("\n").filter((line) => line.includes('"content"')).join();
  check(answer.includes("asked twice") && !answer.includes("isError"), `the call that waits does not pass: ${(await call).text}`);
  await until("no count", async () => (await page.locator("nav a[href='#approvals'] .count").count()) === 0);
  await go("clients");
  await until("the profile of the client", async () => /careful/.test(await page.locator("table.clients tbody tr", { hasText: "person" }).innerText()));
  await fetch(`${url}/mcp/p/careful`, { method: "DELETE", headers });
});

await step("a search ranks, and says why", async () => {
  await page.locator("nav a", { hasText: "Tools" }).click();
  await page.locator("#search").fill("convert 5 kilometers to miles");
  const first = page.locator(".hit").first();
  await until("the best tool", async () => /unit_convert/.test(await first.innerText()));
  check(/[6-9]\d%/.test(await first.locator(".confidence").innerText()), "it is not sure"); // by words alone, if the tools are not encoded yet
  await first.locator("summary").click();
  const why = first.locator(".why");
  await why.waitFor();
  check(/\d+%/.test(await why.innerText()) && /convert/.test(await why.innerText()), "the shares are not told");
  check(await why.locator(".stack rect").count() > 5, "the shares are not drawn");
  check(/q=convert\+5/.test(await page.evaluate(() => location.hash)), "the address does not have the search");
  await page.reload();
  await until("the same after a reload", async () => /unit_convert/.test(await first.innerText()));
  check(await page.locator("#search").inputValue() === "convert 5 kilometers to miles", "the words are gone");
});

await step("filters narrow the list", async () => {
  await go("tools");
  await until("all tools", async () => await page.locator(".hit").count() > 8);
  await page.locator("select").nth(1).selectOption("steady");
  await until("those of one server", async () => (await page.locator(".hit .server-name").allInnerTexts()).every((s) => s === "steady"));
  await page.locator("select").nth(1).selectOption("");
  await page.locator("select").nth(0).selectOption({ index: 1 });
  await until("those of one capability", async () => /capability=/.test(await page.evaluate(() => location.hash)));
});

await step("a tool is called by its form", async () => {
  await go("tools?tool=utilities%3Aunit_convert");
  await call(); // without what is needed
  await until("what is missing", async () => await page.locator(".field-error").count() >= 3);
  await until("the first to have the focus", () => focused("form.call [aria-invalid=true]"));
  await call(async () => {
    await page.getByLabel("value required").fill("5");
    await page.getByLabel("from_unit").fill("km");
    await page.getByLabel("to_unit").fill("mi");
  });
  await until("the result", async () => /3\.1068/.test(await resultText()));
  check(await page.locator(".result.ok .meta").innerText().then((t) => /ms/.test(t) && /trace/.test(t)), "latency and trace are not shown");
});

await step("numbers and texts arrive as they were written", async () => {
  await go("tools?tool=steady%3Aexact");
  await call(async () => {
    await page.getByLabel("big required").fill("9007199254740993");
    await page.locator(".optional summary").click();
    await page.getByLabel("fraction").fill("1.10");
    await page.getByLabel("mode").selectOption("slow");
    await page.getByRole("button", { name: "Add to tags" }).click();
    await page.getByLabel("tags 1", { exact: true }).fill("a, b");
    await page.getByLabel("label").fill(evil);
    await page.getByLabel("inner").fill("x");
  });
  await until("the result", async () => /9007199254740993/.test(await resultText()));
  const sent = await resultText();
  for (const part of ["1.10", '"slow"', '"a, b"', evil]) check(sent.includes(part), `${part} did not arrive: ${sent}`);
  await page.getByLabel("Edit as JSON").check();
  const json = page.getByLabel("Arguments, as JSON");
  check((await json.inputValue()).includes("9007199254740993"), "the form is not told as JSON");
  await json.fill('{"big": 12345678901234567890, "more": [1e400]');
  await call();
  await until("the error to be told", async () => /not valid JSON.*line 1, column/.test(await page.locator("#json-error").innerText()));
  await json.fill('{"big": 12345678901234567890, "label": "z", "nested": {"inner": "y"}, "more": [1e400]}');
  await call();
  await until("the other result", async () => /12345678901234567890/.test(await resultText()) && /1e400/.test(await resultText()));
  await page.getByLabel("Edit as JSON").uncheck();
  check(await page.getByLabel("big required").inputValue() === "12345678901234567890", "the JSON is not in the form");
  check(/more/.test(await page.locator("form.call").innerText()), "what the schema does not name is lost");
});

await step("a tool that may destroy something asks first", async () => {
  await go("tools?tool=steady%3Adelete_all");
  await page.getByLabel("path").fill("/tmp/precious");
  await call();
  const dialog = page.locator("dialog");
  await dialog.waitFor();
  const question = await dialog.innerText();
  check(/delete_all/.test(question) && /steady/.test(question) && /precious/.test(question), `it asks: ${question}`);
  check(await focused("dialog *"), "the dialog does not have the focus");
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press(i < 5 ? "Tab" : "Shift+Tab");
    check(await page.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest("dialog")), "the focus has left the dialog");
  }
  await page.keyboard.press("Escape");
  await until("it to be closed", async () => await dialog.count() === 0);
  check(await focused("form.call button.primary"), "the focus is not back");
  check(await page.locator(".result").count() === 0, "it was called all the same");
  await page.keyboard.press("Enter");
  await dialog.getByRole("button", { name: "Call it" }).click();
  await until("the result", async () => /precious/.test(await resultText()));
});

await step("what fails is said to have failed", async () => {
  await go("tools?tool=steady%3Afail");
  await call();
  await page.locator("dialog").getByRole("button", { name: "Call it" }).click();
  await until("the failure", async () => /The tool failed/.test(await page.locator(".result.bad").innerText()));
});

await step("strangers' texts are only texts", async () => {
  await go("tools?q=evil");
  await until("the evil tool", async () => (await page.locator(".hit").allInnerTexts()).some((t) => t.includes("evil")));
  await page.locator(".hit", { hasText: "onerror" }).first().locator("a.open").click();
  await until("its description", async () => (await page.locator(".long").innerText()).includes(evil));
  await page.getByLabel("message").fill(`${evil}<script>window.pwned=2</script>`);
  await call();
  await until("its result", async () => (await resultText()).includes(evil));
  await page.locator(".schemas details").last().locator("summary").click();
  await go("calls");
  await go("configuration");
  await until("the name", async () => (await page.locator("main").innerText()).includes("evil <b>"));
  check(await page.evaluate(() => window.pwned === undefined && !document.querySelector('img[src="x"], main b b, article script')), "a stranger's text came alive");
});

await step("results of whatever shape are drawn", async () => {
  const object = { _$litType$: 1, strings: [evil], values: [] }, link = { type: "resource_link", uri: "javascript:window.pwned=3", name: "\u202egnp.exe" };
  for (const result of [
    null, 5, [], { content: object }, { content: [null, 1, { type: object }, { type: "text", text: object }, { type: "image", mimeType: object, data: object }] },
    { content: [{ type: "image", mimeType: "text/html", data: "PHNjcmlwdD4=" }, { type: "audio", mimeType: object, data: object }, { type: "resource", resource: object }, { type: "resource", resource: "x" }] },
    { content: [{ type: "resource_link", uri: object, name: object, description: object, mimeType: object }], _meta: { latency_ms: object, attempts: object, trace_id: object } },
    { content: [link, { type: "resource", resource: { uri: "data:text/html,x", text: "x" } }], structuredContent: object, isError: object },
    { content: [{ type: "image", mimeType: "image/svg+xml", data: btoa(`<svg xmlns="http://www.w3.org/2000/svg"><script>parent.pwned=4</script></svg>`) }] },
    { content: [{ type: "text", text: `${"\n\"".repeat(1_000_000)} the end` }] },
  ]) {
    await page.route("**/dashboard/call", (r) => r.fulfill({ contentType: "application/json", body: JSON.stringify({ result }) }));
    await go("tools?tool=utilities%3Aunit_convert");
    for (const label of ["value required", "from_unit", "to_unit"]) await page.getByLabel(label).fill("1");
    await call();
    await page.locator("form.call button", { hasText: /^\s*Call\s*$/ }).waitFor();
    if (result !== null) await page.locator(".result, #result .log").first().waitFor();
    check(await page.locator("form.call").count() === 1, `the view is gone: ${JSON.stringify(result).slice(0, 100)}`);
    check(await page.evaluate(() => window.pwned === undefined && ![...document.querySelectorAll("#result a")].some((a) => !/^https?:/.test(a.href))), "a result came alive");
    await page.unroute("**/dashboard/call");
  }
});

await step("calls are listed, drawn and filtered", async () => {
  await go("calls");
  await until("the calls", async () => (await page.locator("table.calls tbody tr").count()) >= 5);
  await send(`${url}/mcp/p/reader`, "tools/call", { name: "run_script", arguments: { code: 'return await call("steady:pid")' } }, { "User-Agent": "curl/8.5.0" });
  await until("the call of a script", async () => /script [0-9a-f]{8}/.test(await page.locator("table.calls tr", { hasText: "pid" }).first().innerText()));
  const text = await page.locator("table.calls").innerText();
  check(/unit_convert/.test(text) && /tool failed/.test(text) && /dashboard/.test(text), `the calls are: ${text}`);
  check(await page.locator(".plot canvas").count() === 2, "the charts are not drawn");
  await until("the histogram in words", async () => /half within/.test(await page.locator(".plot").nth(1).getAttribute("aria-label")));
  await page.getByLabel("Outcome").selectOption("failed");
  await until("only the failed ones", async () => (await page.locator("table.calls tbody td.outcome").allInnerTexts()).every((t) => /failed|arguments|approved|answer|refused/.test(t)));
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: /Go on/ }).click();
  await page.getByLabel("Outcome").selectOption("");
  await page.locator("table.calls a", { hasText: "unit_convert" }).first().click();
  await until("the tool of a call", async () => /unit_convert/.test(await page.locator("article.tool .names").innerText()));
});

await step("an edit on disk is taken up and told", async () => {
  await go("configuration");
  editEntries((all) => { all.later = all.steady; all.steady = { ...all.steady, timeout: "1m" }; });
  await until("what was added", async () => (await page.locator("#entry-later").count()) === 1);
  await go("servers");
  await until("the new server", async () => (await state("later")) === "ready");
});

await step("an edit that is not JSON changes nothing, and the error has line and column", async () => {
  await go("configuration");
  const good = readFileSync(config, "utf8");
  edit((text) => text.replace('"later": {', '"later": }'));
  const line = readFileSync(config, "utf8").split("\n").findIndex((l) => l.includes('"later": }')) + 1;
  await until("the rejection", async () => new RegExp(`:${line}:\\d+`).test(await page.locator("[aria-label='Rejected edit']").innerText().catch(() => "")));
  await go("servers");
  check(/not in use/.test(await page.locator(".troubles").innerText()), "the servers' view does not tell");
  check((await state("later")) === "ready", "the servers were harmed");
  edit(() => good);
  await until("the rejection to be over", async () => (await page.locator(".troubles").count()) === 0);
  editEntries((all) => { delete all.later; });
  await until("the server to be gone", async () => (await server("later").count()) === 0);
});

await step("the error of a wrong entry has line and column", async () => {
  editEntries((all) => { all.wanting = { command: "x", env: { KEY: "${METAROUTER_NOT_SET}" } }; });
  await until("the entry", async () => /:\d+:\d+.*METAROUTER_NOT_SET/s.test(await server("wanting").innerText().catch(() => "")));
  await go("configuration");
  await until("the problem", async () => /METAROUTER_NOT_SET/.test(await page.locator(".problems").innerText()));
  editEntries((all) => { delete all.wanting; });
  await until("the problem to be over", async () => (await page.locator(".problems").count()) === 0);
});

await step("a warning is told apart from an error, and has its fix", async () => {
  editEntries((all) => { all.steady.favouriteColour = 1; });
  await go("configuration");
  await until("the warning", async () => /1 warning/.test(await page.locator(".problems caption").innerText().catch(() => "")));
  check(/favouriteColour.*→ remove it/s.test(await page.locator(".problems tr.warning").innerText()), "the table lacks the fix");
  check((await page.locator("nav a[href='#configuration'] .count.bad").count()) === 0, "a warning is an alarm");
  editEntries((all) => { delete all.steady.favouriteColour; });
  await until("the warning to be over", async () => (await page.locator(".problems").count()) === 0);
});

await step("all is reached by the keyboard", async () => {
  await page.goto(`${url}/#servers`);
  await page.reload();
  await server("steady").waitFor();
  await page.keyboard.press("Tab");
  check(await focused(".skip"), "the first tab is not the skip link");
  await page.keyboard.press("Enter");
  check(await focused("main"), "the skip link does not skip");
  await tab(".chip");
  await tab("button.name");
  await page.keyboard.press("Enter");
  await page.locator(".more").first().waitFor();
  await tab(".actions button");
  check(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle) !== "none", "the focus is not seen");
  await page.evaluate(() => { location.hash = "#tools"; });
  await page.locator("#search").waitFor();
  await until("the focus to be in the new view", () => focused("main"));
  await tab("#search");
  await page.keyboard.type("echo");
  await until("the search", async () => /q=echo/.test(await page.evaluate(() => location.hash)));
  await tab(".hit a.open");
  await page.keyboard.press("Enter");
  await page.locator("form.call").waitFor();
});

await step("the theme is changed, and remembered", async () => {
  const toggle = page.locator("button.theme");
  const dark = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  await toggle.click();
  check(await dark() === "light", "it is not light");
  await toggle.click();
  check(await dark() === "dark", "it is not dark");
  await page.reload();
  check(await dark() === "dark", "it is forgotten");
  await toggle.click();
  check(await dark() === "light dark", "it is not the system's");
});

await step("a lost router is reported, and found again", async () => {
  silent = true;
  await page.route("**/dashboard/events", (r) => r.abort());
  await page.reload();
  await until("it to be told", async () => (await page.locator("#link").innerText()) === "disconnected, trying again");
  check(/does not answer/.test(await page.locator(".summary").innerText()), "the summary does not say so");
  await page.unroute("**/dashboard/events");
  for (const [body, why] of [["the key is wrong", /the key is wrong/], ['{"error":"51 pages"}', /51 pages/], ['{"jsonrpc":"2.0","error":{"code":1,"message":"too many requests"}}', /too many requests/]]) {
    await page.route("**/dashboard/events", (r) => r.fulfill({ status: 403, body }));
    await until("why", async () => why.test(await page.locator(".summary").innerText()));
    await page.unroute("**/dashboard/events");
  }
  await until("it to be back", async () => (await page.locator("#link").innerText()) === "live");
  silent = false;
});

await step("a hidden page requests nothing", async () => {
  const other = await context.newPage();
  await other.clock.install();
  const hide = (hidden) => other.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  const link = async (word) => { // while the clock goes on
    for (let i = 0; (await other.locator("#link").innerText()) !== word; i++) {
      check(i < 300, `the page is not ${word}`);
      await other.clock.runFor(100);
    }
  };
  await other.goto(`${url}/`);
  await link("live");
  await hide(true);
  await other.clock.runFor(29_000);
  await link("live");
  await other.clock.runFor(2000);
  await link("paused while hidden");
  await hide(false);
  await link("live");
  await other.close();
});

await step("an edit that waits for approval has the command that approves it", async () => {
  await page.goto(`${waiting}/`);
  for (const [view, place] of [["servers", ".troubles"], ["configuration", "[aria-label='Rejected edit']"]]) {
    await go(view);
    await until(`the edit in ${view}`, async () =>
      /waits for your approval.*\(added: two\).*Read the file, then run this in a terminal: metarouter trust \S*\.mcp\.json/s.test(await page.locator(place).innerText().catch(() => "")));
    check(!/Correct the file/.test(await page.locator(place).innerText()), "the advice is that for a wrong file");
  }
  await page.goto(`${url}/`);
});

await step("a router with a token asks for it, and again when it is forgotten", async () => {
  silent = true; // of the answers 401
  await page.goto(`${guarded}/`);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button").click();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button").click();
  await until("the page", async () => (await page.locator("#link").innerText()) === "live");
  const denied = () => send(`${guarded}/mcp/p/careful`, "tools/call", { name: "echo__echo", arguments: { message: "x" } }, { Authorization: `Bearer ${token}` });
  await denied();
  await go("approvals");
  check(/ops/.test(await approval("echo").innerText()), "the principal is not shown");
  await approval("echo").getByRole("button", { name: /^Deny/ }).click();
  await page.locator(".approval.over").waitFor();
  check(/ops \(on the router's page\) declined/.test((await denied()).text), "the admin who denied is not named");
  await go("clients");
  await until("the principal", async () => /careful\s+ops/.test(await page.locator("table.clients").first().innerText()));
  await go("tools");
  await page.locator(".hit").first().waitFor();
  await context.clearCookies();
  await page.locator("#search").fill("anything");
  await page.getByLabel("Token").waitFor();
  silent = false;
  await page.goto(`${url}/`);
});

// What axe-core finds in all views, in both themes, at the width of a phone and of a desk.
const scenes = {
  servers: async () => { await go("servers"); await server("broken").waitFor(); },
  "an open server": async () => { await go("servers?server=steady"); await page.locator(".more").first().waitFor(); },
  tools: async () => { await go("tools"); await page.locator(".hit").first().waitFor(); },
  "a search": async () => {
    await go("tools?q=convert+kilometers");
    await page.locator(".hit .reason").first().waitFor();
    if (await page.locator(".hit .why").count() === 0) await page.locator(".hit summary").first().click();
    await page.locator(".why").first().waitFor();
  },
  "a tool and its result": async () => {
    await go("tools?tool=steady%3Aexact");
    await page.locator("form.call").waitFor();
    await page.getByLabel("big required").fill("1");
    await page.getByLabel("label").fill("x");
    await page.getByLabel("inner").fill("x");
    await call();
    await page.locator(".result").waitFor();
  },
  "a form with errors": async () => { await go("tools?tool=utilities%3Aunit_convert"); await call(() => page.getByLabel("value required").fill("five")); await page.locator(".field-error").first().waitFor(); },
  "a question": async () => { await go("tools?tool=steady%3Adelete_all"); await call(() => page.getByLabel("path").fill("x")); await page.locator("dialog").waitFor(); },
  calls: async () => { await go("calls"); await page.locator("table.calls").waitFor(); },
  "no calls": async () => { await go("calls?server=broken"); await page.locator(".empty").waitFor(); },
  approvals: async () => {
    await send(`${url}/mcp/p/careful`, "tools/call", { name: "steady__echo", arguments: { message: "a scene" } });
    await go("approvals");
    await approval("a scene").waitFor();
  },
  clients: async () => { await go("clients"); },
  configuration: async () => { await go("configuration"); await page.locator(".entry").first().waitFor(); },
};
for (const [width, height] of [[1280, 900], [390, 844]]) {
  for (const colorScheme of ["light", "dark"]) {
    if (!all && (width === 1280 || colorScheme === "light")) continue;
    await step(`accessible: ${width} wide, ${colorScheme}`, async () => {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.goto(`${url}/#servers`);
      await page.reload();
      for (const [name, show] of Object.entries(scenes)) {
        await show();
        await page.evaluate(axe);
        const found = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
        const told = found.violations.map((v) => `${v.impact} ${v.id}: ${v.help}\n${v.nodes.slice(0, 3).map((n) => `    ${n.html}\n    ${n.failureSummary}`).join("\n")}`);
        check(!told.length, `${name}:\n${told.join("\n")}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        check(wide <= 0, `${name}: the page is ${wide} pixels wider than the window`);
        if (await page.locator("dialog").count()) await page.keyboard.press("Escape");
      }
    });
  }
}

await browser.close();
