#!/usr/bin/env node
// Starts the binary of this platform: `npx canopy-moa serve` with Node, Bun or Deno.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import process from "node:process";

const platform = `${process.platform}-${process.arch}`;
const args = process.argv.slice(2);

function findProgram() {
  try {
    return createRequire(import.meta.url).resolve(`canopy-moa-${platform}/canopy`);
  } catch {
    process.stderr.write(
      `canopy: there is no binary for ${platform} here. Linux on x64 and arm64 have one; if this is such a ` +
        "machine, install again with optional dependencies (npm install --include=optional).\n",
    );
    process.exit(1);
  }
}

/** Runs the binary as a child and passes signals on, for runtimes that cannot become another program. */
function runBeside(program) {
  const early = [];
  // Not by child.kill: behind it Deno calls every end one by that signal.
  const target = { take: (signal) => early.push(signal) };
  const pass = (signal) => target.take(signal);
  // Before the child is there: nothing may end this process alone.
  for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) process.on(signal, pass);
  // A terminal's Ctrl-C reaches both; another's SIGINT only this one.
  process.on("SIGINT", (signal) => process.stdin.isTTY || pass(signal));
  const child = spawn(program, args, { stdio: "inherit" });
  target.take = (signal) => process.kill(child.pid, signal);
  for (const signal of early) pass(signal);
  child.on("error", (error) => {
    process.stderr.write(`canopy: ${program} does not start: ${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (code !== null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const program = findProgram();
// Node from 22.15 becomes the binary: signals, terminal and exit code are its own.
if (typeof process.execve === "function" && process.versions.bun === undefined) {
  process.execve(program, [program, ...args], process.env);
} else runBeside(program);
