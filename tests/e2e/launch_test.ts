import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { takePorts } from "../ports.ts";
import { runBinary } from "./binary.ts";

test("the binary starts itself as simulated engines, serves a tree over them detached, and ends all of it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-launch-"));
  const where = ["--state-dir", folder];
  const ports = await takePorts();
  try {
    const quick = ["--set", "launch.sim_args=--speedup,100,--scripted"];
    const launched = await runBinary([
      ...[
        "launch",
        "moa-9-3-1",
        "--engine",
        "sim",
        "--detach",
        "--port",
        "0",
        "--base-port",
        `${ports.base}`,
      ],
      ...quick,
      ...where,
    ]);
    assert.equal(launched.code, 0, launched.stderr);
    const url = /Canopy is listening on (http:\S+) /.exec(launched.stdout)?.[1] ?? "";
    const status = await runBinary(["status", ...where]);
    assert.equal(status.code, 0);
    assert.match(status.stdout, /\n4b +ready +\d+ /);
    const chat = await runBinary(["chat", "What is 17 * 23?", "--url", url, "--model", "moa"]);
    assert.equal(chat.code, 0, chat.stderr);
    assert.ok(chat.stdout.length > 1);
  } finally {
    const stopped = await runBinary(["stop", ...where]);
    assert.equal(stopped.stdout, 'Launch "default" has ended\n');
    rmSync(folder, { recursive: true });
    await ports.release();
  }
});
