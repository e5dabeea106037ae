#!/usr/bin/env node
// Runs the binary that npm installed for this platform, with the same arguments, streams and signals.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { version } = require("../package.json");

function binary() {
  const carrier = `baton-llm-${process.platform}-${process.arch}`;
  try {
    // npm may have left one of another version in a directory above.
    if (require(`${carrier}/package.json`).version !== version) throw new Error(carrier);
    return require.resolve(`${carrier}/bin/baton`);
  } catch {
    console.error(`error: npm did not install ${carrier}, which has the binary of ${version}`);
    console.error("  help: install without --omit=optional; where there is no such package: cargo install baton-llm");
    process.exit(69);
  }
}

const program = binary();
const words = process.argv.slice(2);

// In place of this process, so that job control and signals meet baton itself. Node 22.15 and 23.11 can, older ones cannot.
if (process.execve) process.execve(program, [program, ...words], process.env);

const child = spawn(program, words, { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: ${error.message}`);
  process.exit(126);
});
// A terminal sends Ctrl-C to both; a signal for this process alone goes on to the binary, which decides when to end.
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
process.on("SIGINT", () => {});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
