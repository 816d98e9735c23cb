// Copies the files that the page needs out of node_modules into ../page/vendor, under
// the same paths.
import { cpSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const files = [
  "lit-html/LICENSE",
  "lit-html/lit-html.js",
  "lit-html/directive.js",
  "lit-html/directive-helpers.js",
  "lit-html/directives/guard.js",
  "lit-html/directives/live.js",
  "lit-html/directives/repeat.js",
  "uplot/LICENSE",
  "uplot/dist/uPlot.esm.js",
  "uplot/dist/uPlot.min.css",
];

const here = dirname(fileURLToPath(import.meta.url));
const vendor = join(here, "..", "page", "vendor");
rmSync(vendor, { recursive: true, force: true });
for (const file of files) cpSync(join(here, "node_modules", file), join(vendor, file));
