import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { NativeBench } from "../../../../bench/micro/peers/native.ts";

const able = process.platform === "linux" && spawnSync("cc", ["--version"]).status === 0;

/** Ports that nobody listened on a moment ago. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  const ports = await Promise.all(servers.map(async (server) => {
    await new Promise((resolve) => server.once("listening", resolve));
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

test("the clients in C read whole answers and every chunk of the worker in C", { skip: !able }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-native-"));
  let stop = () => {};
  try {
    const bench = new NativeBench(folder);
    const [prefill = 0, decode = 0] = await freePorts(2);
    stop = await bench.serve("m", [prefill, decode]);
    const whole = await bench.load(decode, "m", ["closed", "4", "0.1"]);
    assert.ok(whole.failed === 0 && whole.requests >= 4 && whole.requests === whole.begun);
    const streams = await bench.load(decode, "m", ["streams", "3", "0.05", "7", "1000", "1"]);
    assert.equal(streams.failed, 0);
    assert.equal(streams.chunks, 7 * streams.requests);
    const prefilled = await bench.load(prefill, "m", ["streams", "2", "0.05", "7", "0", "0"]);
    assert.equal(prefilled.chunks, prefilled.requests, "a prefill server's stream has one chunk");
  } finally {
    stop();
    rmSync(folder, { recursive: true });
  }
});
