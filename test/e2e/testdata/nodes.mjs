// Looks at the nodes of a cluster as a person would, in a real browser. The first argument is JSON:
// modules (node_modules), url (of the router "desk", which uses "gpu@box"), box (the PID of the
// router of that node, which is killed), rogue (the key of a node that is not trusted) and shots (a
// folder for screenshots of what went wrong).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { modules, url, box, rogue, shots, browser: executablePath } = JSON.parse(process.argv[2]);
const { chromium } = await import(pathToFileURL(join(modules, "playwright-core", "index.mjs")));
const axe = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const complaints = []; // of the browser, which should have none
page.on("console", (m) => { if (["error", "warning"].includes(m.type())) complaints.push(`console: ${m.text()}`); });
page.on("pageerror", (e) => complaints.push(`page: ${e.stack}`));

function check(is, what) {
  if (!is) throw new Error(what);
}

async function step(name, f) {
  try {
    await f();
    check(!complaints.length, complaints.join("\n"));
    console.log(`ok   ${name}`);
  } catch (e) {
    console.log(`FAIL ${name}: ${e.stack}`);
    await page.screenshot({ path: join(shots, "failed.png") }).catch(() => {});
    console.log((await page.locator("body").innerText().catch(() => "")).slice(0, 3000));
    await browser.close();
    process.exit(1);
  }
}

const row = (name) => page.locator("table.nodes tbody tr", { has: page.locator("td.what b", { hasText: new RegExp(`^${name}$`) }) });

await step("the nodes", async () => {
  await page.goto(`${url}/#nodes`);
  await row("desk").locator(".is", { hasText: "this node" }).waitFor();
  await row("box").locator(".is", { hasText: "alive" }).waitFor();
  await row("box").locator(".took", { hasText: "ms" }).waitFor();
  await row("rogue").locator(".is", { hasText: "not trusted" }).waitFor();
  await row("box").locator(".sees", { hasText: "spare" }).waitFor(); // a node is known before its servers are
  await row("box").locator(".sees a").first().waitFor();
  check((await row("box").locator(".sees").innerText()).trim() === "gpu, spare", "what box shares");
  check(await row("box").locator(".sees a").count() === 1, "only the server that is used has a link");
  check((await row("rogue").innerText()).includes(rogue.slice(0, 8)), "the key of the rogue");
  check(!(await row("rogue").innerText()).includes("github"), "what the rogue announces is not shown");
  const key = await row("box").locator("code").first().boundingBox();
  check(key.width > key.height, "a key is in one line");
});

await step("a server of another node", async () => {
  await row("box").locator(".sees a").click();
  const server = page.locator(".server", { has: page.locator("h2", { hasText: /^\s*gpu@box\s*$/ }) });
  await server.locator(".more").waitFor();
  check((await server.locator(".actions").innerText()).trim() === "on box", "it can't be started and stopped here");
  check((await server.locator(".facts").innerText()).includes("cluster"), "its transport");
});

for (const [width, height] of [[1280, 900], [390, 844]]) {
  for (const colorScheme of ["light", "dark"]) {
    await step(`accessible: ${width} wide, ${colorScheme}`, async () => {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.goto(`${url}/#nodes`);
      await row("box").waitFor();
      await page.evaluate(axe);
      const found = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
      check(!found.violations.length, found.violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.slice(0, 3).map((n) => `    ${n.html}\n    ${n.failureSummary}`).join("\n")}`).join("\n"));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `the page is ${wide} pixels wider than the window`);
    });
  }
}

await step("a node is lost", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  process.kill(box, "SIGKILL");
  await row("box").locator(".is", { hasText: "lost" }).waitFor();
  await page.goto(`${url}/#servers`);
  await page.locator(".server h2", { hasText: "own" }).waitFor();
  // The router takes the server away a moment after the node is lost, and the page shows it with its
  // next update.
  await page.locator(".server h2", { hasText: "gpu@box" }).waitFor({ state: "detached" });
});

await browser.close();
