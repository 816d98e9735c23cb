#!/usr/bin/env node
// Starts the program metarouter, which is in the package of this platform.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;

function program() {
  const file = process.platform === "win32" ? "metarouter.exe" : "metarouter";
  try {
    return require.resolve(`@mcp-metarouter/${platform}/bin/${file}`);
  } catch {
    console.error(
      `metarouter: the package @mcp-metarouter/${platform} is not installed. ` +
        "If you installed with --omit=optional, install again without it. " +
        "Else this platform has no program: install Go and run " +
        "'go install github.com/mcp-metarouter/metarouter/cmd/metarouter@latest'."
    );
    process.exit(1);
  }
}

const path = program();
const args = process.argv.slice(2);

// The program takes the place of this process where Node.js can do this. Then signals
// reach it, and nothing stays between it and the client.
if (process.execve && process.platform !== "win32") {
  process.execve(path, [path, ...args], process.env);
}

// Otherwise this process passes signals on and ends as the program does. The program
// reads the client's own stdin, and ends when the client closes it.
const child = spawn(path, args, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`metarouter: ${path} can't be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
