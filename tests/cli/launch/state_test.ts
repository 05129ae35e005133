import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { makeRoom, newState, refuseRunning, StateWriter } from "../../../cli/launch/state.ts";
import { readState } from "../../../launcher/supervise/launch_state.ts";
import { systemProcessTable } from "../../../launcher/supervise/process_table.ts";
import { fakeIo } from "../fake_io.ts";

const state = {
  id: "1-2",
  pid: 1,
  startedAtUnixMs: 2,
  phase: "starting",
  source: "canopy.jsonc",
  engines: [],
} as const;

test("a state that cannot be written ends no launch that has begun, and is written once it can be again", () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-state-"));
  try {
    const writer = new StateWriter(folder, { ...state, engines: [] });
    // In the way of what is written, as a full disk is.
    mkdirSync(join(folder, "state.json.new"));
    writer.set({ phase: "serving" });
    assert.equal(readState(folder)?.phase, "starting");
    assert.throws(() => new StateWriter(folder, { ...state, engines: [] }));
    rmSync(join(folder, "state.json.new"), { recursive: true });
    writer.set({ url: "http://127.0.0.1:8000" });
    assert.equal(readState(folder)?.phase, "serving");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("of two launches of one name that begin at once the second is refused before it starts engines", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-state-"));
  try {
    const table = systemProcessTable();
    const io = fakeIo();
    // Both find room; then each looks at the host's GPUs, which takes seconds.
    await makeRoom(folder, "moa", { table, graceMs: 1, io });
    await makeRoom(folder, "moa", { table, graceMs: 1, io });
    assert.equal(refuseRunning(folder, "moa", table), undefined);
    new StateWriter(folder, newState("canopy.jsonc", table, io));
    assert.throws(() => refuseRunning(folder, "moa", table), { code: "launch_running", status: 409 });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
