import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { stageMain, stagePlatform } from "../../release/npm_packages.ts";
import { TARGETS } from "../../release/targets.ts";
import { SystemClock } from "../../base/clock.ts";
import { mortalEnv } from "../lifeline.ts";

const clock = new SystemClock();
const FACTS = { version: "1.2.3", description: "A router", license: "Apache-2.0" };
/** In the place of the binary: says its arguments and input, waits for SIGTERM if it is to, ends with its first. */
const STUB = `#!/bin/sh
trap 'echo terminated; exit 9' TERM
echo "args: $*"
[ "$2" = wait ] && { echo ready; while :; do sleep 0.05; done; }
cat
exit "$1"
`;
const ARCH = process.arch === "arm64" ? "arm64" : "x64";
/** Ways to run the program: Node, which everybody with npm has, and the runtime of this test. */
const RUNTIMES = [["node"], [process.execPath, ...("Deno" in globalThis ? ["run", "-A"] : [])]];

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the package's program; sends SIGTERM from when it says `ready` on. */
function start(folder: string, [program = "", ...options]: readonly string[], args: readonly string[]) {
  const shim = join(folder, "node_modules/canopy-moa/canopy.mjs");
  const child = spawn(program, [...options, shim, ...args], { cwd: folder, env: mortalEnv() });
  return new Promise<Ended>((resolve, reject) => {
    let out = "";
    let err = "";
    let told = false;
    let closed = false;
    // Again and again: what a runtime does not hear while it starts, it hears then.
    const terminate = async () => {
      while (!closed) {
        try {
          if (child.pid !== undefined) process.kill(child.pid, "SIGTERM");
        } catch {
          // It has just ended.
        }
        await clock.sleep(500);
      }
    };
    child.stdout.on("data", (piece) => {
      out += String(piece);
      if (told || !out.includes("ready")) return;
      told = true;
      void terminate();
    });
    child.stderr.on("data", (piece) => err += String(piece));
    child.stdin.end("from standard input\n");
    child.on("error", reject);
    child.on("close", (code) => {
      closed = true;
      resolve({ code, out, err });
    });
  });
}

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-release-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function stage(folder: string, withBinary: boolean): void {
  const binary = join(folder, "stub");
  writeFileSync(binary, STUB);
  stageMain(join(folder, "node_modules/canopy-moa"), TARGETS, FACTS);
  const platform = join(folder, "node_modules", `canopy-moa-linux-${ARCH}`);
  stagePlatform(platform, { platform: "linux", arch: ARCH }, binary, FACTS);
  if (!withBinary) rmSync(platform, { recursive: true });
}

test("the npm package starts its platform's binary with arguments, input, exit code and signals", async () => {
  await inFolder(async (folder) => {
    stage(folder, true);
    for (const runtime of RUNTIMES) {
      const { code, out, err } = await start(folder, runtime, ["7", "two words"]);
      assert.deepEqual([code, out, err], [7, "args: 7 two words\nfrom standard input\n", ""]);
      const stopped = await start(folder, runtime, ["0", "wait"]);
      assert.deepEqual([runtime[0], stopped], [runtime[0], {
        code: 9,
        out: "args: 0 wait\nready\nterminated\n",
        err: "",
      }]);
    }
  });
});

test("where there is no binary for a platform the npm package says so, and what to do", async () => {
  await inFolder(async (folder) => {
    stage(folder, false);
    const { code, out, err } = await start(folder, ["node"], ["version"]);
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /^canopy: there is no binary for \S+ here\. .*--include=optional\)\.\n$/);
  });
});

test("each platform's package fits only there, and the main one asks for the same version of all", async () => {
  await inFolder((folder) => {
    stage(folder, true);
    const read = (name: string) =>
      JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8"));
    const platform = read(`canopy-moa-linux-${ARCH}`);
    assert.deepEqual([platform.os, platform.cpu, platform.libc], [["linux"], [ARCH], ["glibc"]]);
    assert.equal(platform.scripts, undefined);
    const { bin, optionalDependencies, version } = read("canopy-moa");
    assert.deepEqual([Object.keys(bin), version], [["canopy"], "1.2.3"]);
    assert.deepEqual(optionalDependencies, {
      "canopy-moa-linux-x64": "1.2.3",
      "canopy-moa-linux-arm64": "1.2.3",
    });
    return Promise.resolve();
  });
});
