// Logs in to the page at an issuer, as people would, in a real browser. The first argument is JSON:
// modules (node_modules), browser, url (of the router, below a path), issuer (where bob is an
// administrator and ann is not), and shots (a folder for screenshots of what went wrong).
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { modules, url, issuer, shots, browser: executablePath } = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

const seen = []; // {url, referer, status} of all requests
let context, page;

/** begin opens another browser, without cookies. */
async function begin() {
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(60_000);
  context.on("response", async (r) => seen.push({ url: r.url(), status: r.status(), referer: (await r.request().allHeaders().catch(() => ({}))).referer }));
  page = await context.newPage();
  page.on("pageerror", (e) => errors.push(e.stack));
}
const errors = [];

function check(is, what) {
  if (!is) throw new Error(what);
}

async function step(name, f) {
  const began = Date.now();
  try {
    await f();
    check(!errors.length, errors.join("\n"));
    console.log(`ok   ${name} (${Date.now() - began} ms)`);
  } catch (e) {
    console.log(`FAIL ${name}: ${e.stack}`);
    await page.screenshot({ path: join(shots, "failed.png") }).catch(() => {});
    for (const p of context.pages()) console.log(p.url().split("?")[0], (await p.locator("body").innerText().catch(() => "")).slice(0, 2000));
    console.log(seen.slice(-30).map((r) => `${r.status} ${r.url.split("?")[0]}`).join("\n"));
    await browser.close();
    process.exit(1);
  }
}

const host = new URL(issuer).host;

/** logIn presses the button, and logs the user in at the issuer. */
async function logIn(user) {
  await page.getByRole("button", { name: `Log in with ${host}` }).click();
  await page.locator("input[name=login]").fill(user);
  await page.locator("input[name=password]").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

const live = () => page.locator("#link", { hasText: "live" }).waitFor();

await step("who is no administrator learns why", async () => {
  await begin();
  await page.goto(`${url}/`);
  check(!(await page.locator("input[type=password]").count()), "a token is asked for, though there is none");
  await logIn("ann");
  await page.getByRole("alert").getByText("groups=ops").waitFor();
  await page.getByRole("link", { name: "Log in again" }).click();
  await page.getByRole("button", { name: `Log in with ${host}` }).waitFor();
});

await step("an administrator logs in", async () => {
  await begin();
  await page.goto(url); // without a slash
  await logIn("bob");
  await live();
  check(page.url() === `${url}/`, `it ends at ${page.url()}`);
  await page.locator(".visitor", { hasText: "bob" }).waitFor();
  await page.locator(".server", { hasText: "remote" }).waitFor();
});

await step("the page works below the path", async () => {
  await page.goto(`${url}#tools`);
  await live();
  check(page.url().startsWith(`${url}/`), `it is at ${page.url()}`);
  await page.getByText("echo").first().waitFor();
  await page.goto(`${url}/#configuration`);
  await page.locator("main.view-configuration").waitFor();
});

await step("the login outlasts the access token", async () => {
  const before = seen.length;
  await page.waitForTimeout(9_000); // the access token lives 7 s
  await page.reload();
  await live();
  check(!seen.slice(before).some((r) => r.status === 401), "it was lost meanwhile");
});

await step("a logout ends it", async () => {
  const cookies = await context.cookies();
  check(cookies.length && cookies.filter((c) => c.name.startsWith("metarouter")).every((c) => c.httpOnly), `a script can read ${cookies.map((c) => c.name)}`);
  await page.locator("#logout").click();
  await page.getByRole("button", { name: `Log in with ${host}` }).waitFor();
  check(page.url().startsWith(`${url}/`), `it ends at ${page.url()}`);
  await context.addCookies(cookies); // a thief's
  await page.reload();
  await page.getByRole("button", { name: `Log in with ${host}` }).waitFor();
});

await step("another browser does not complete a login", async () => {
  await begin();
  await page.goto(`${url}/login/callback?code=x&state=y&iss=${encodeURIComponent(issuer)}`);
  await page.getByText("has begun no such login").waitFor();
});

await step("no one else learns a code", async () => {
  const leaks = seen.filter((r) => r.referer && /code=/.test(r.referer)).map((r) => r.url);
  check(!leaks.length, `a code is a referrer of ${leaks}`);
  const others = seen.map((r) => r.url.split("?")[0]).filter((u) => !u.startsWith(`${url}/`) && u !== url && !u.startsWith(issuer) && !u.startsWith("data:") && !u.endsWith("/favicon.ico"));
  check(!others.length, `requests to ${others}`);
});

await browser.close();
