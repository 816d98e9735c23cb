// Logs in to a remote server on the page, as a person would, in a real browser. The first
// argument is JSON: modules (node_modules), browser, url (of a router without tokens), guarded
// and token (a router whose logins come back to it, and what it asks for), issuer (of both), and
// shots (a folder for screenshots of what went wrong).
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { modules, url, guarded, token, issuer, shots, browser: executablePath } = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(120_000);
await context.addInitScript(() => {
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
});
const page = await context.newPage();
const errors = [];
const seen = []; // {url, referer} of all requests
page.on("pageerror", (e) => errors.push(e.stack));
context.on("request", async (r) => seen.push({ url: r.url(), referer: (await r.allHeaders().catch(() => ({}))).referer }));

function check(is, what) {
  if (!is) throw new Error(what);
}

async function step(name, f) {
  const began = Date.now();
  try {
    await f();
    check(!errors.length, errors.join("\n"));
    const violations = await page.evaluate(() => window.violations);
    check(!violations.length, `the policy is violated: ${violations}`);
    console.log(`ok   ${name} (${Date.now() - began} ms)`);
  } catch (e) {
    console.log(`FAIL ${name}: ${e.stack}`);
    await page.screenshot({ path: join(shots, "failed.png") }).catch(() => {});
    for (const p of context.pages()) console.log(p.url().split("?")[0], (await p.locator("body").innerText().catch(() => "")).slice(0, 2000));
    await browser.close();
    process.exit(1);
  }
}

const server = page.locator(".server", { has: page.locator("h2", { hasText: /^\s*remote\s*$/ }) });
const stateIs = (text) => server.locator(".state", { hasText: text }).waitFor();

/** logIn presses the button, and returns the tab that opens, when the login is over there. */
async function logIn() {
  await stateIs("needs a login");
  check(/nobody has logged in to it yet/.test(await server.innerText()), "why a login is needed is not said");
  const opened = context.waitForEvent("page");
  await server.getByRole("button", { name: "Log in to remote" }).click();
  const tab = await opened;
  await tab.getByText(/logged in/i).first().waitFor();
  check(await tab.evaluate(() => window.opener === null), "the issuer's page can reach the router's");
  return tab;
}

await step("a login on the page", async () => {
  await page.goto(`${url}/`);
  const tab = await logIn();
  await stateIs("ready");
  await tab.close();
});

await step("the login is described, and ended", async () => {
  await server.locator("button.name").click();
  await server.getByText(issuer, { exact: false }).first().waitFor();
  await server.getByRole("button", { name: "Log out of remote" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await stateIs("ready");
  await server.getByRole("button", { name: "Log out of remote" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Log out" }).click();
  await page.locator("#notices", { hasText: "remote is logged out" }).waitFor();
  await server.getByRole("button", { name: "Log out of remote" }).waitFor({ state: "detached" });
});

await step("a login that comes back to the router, from another site", async () => {
  await page.goto(`${guarded}/`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button").click();
  const tab = await logIn();
  check(tab.url().startsWith(`${guarded}/oauth/callback`), `it ends at ${tab.url().split("?")[0]}`);
  await stateIs("ready");
  await tab.close();
});

await step("another browser does not complete a login", async () => {
  await server.locator("button.name").click();
  const other = await browser.newContext();
  const stranger = await other.newPage();
  await stranger.goto(`${guarded}/oauth/callback?code=x&state=y`);
  await stranger.getByText("This browser has no session with the router").waitFor();
  await other.close();
});

await step("no other site learns a code", async () => {
  const leaks = seen.filter((r) => r.referer && /code=/.test(r.referer)).map((r) => r.url);
  check(!leaks.length, `a code is a referrer of ${leaks}`);
  check(!seen.some((r) => ![url, guarded, issuer].some((u) => r.url.startsWith(u)) && !/^(data|about|blob):/.test(r.url) && !/^http:\/\/(127\.0\.0\.1|localhost):\d+\/callback/.test(r.url) && !r.url.endsWith("/favicon.ico")), `requests to ${seen.map((r) => r.url.split("?")[0])}`);
});

await browser.close();
