import assert from "node:assert/strict";
import { test } from "node:test";
import { releaseNotes } from "../../release/release_notes.ts";
import { readTargets, targetName, TARGETS } from "../../release/targets.ts";

test("notes say what is in each binary, what its start costs, and what has changed since the last release", () => {
  const binary = {
    name: "canopy-linux-x64",
    bytes: 12_000_000,
    parts: [{ name: "ONNX Runtime", bytes: 2_500_000 }, { name: "the rest", bytes: 9_500_000 }],
    startCpuMs: 160.4,
  };
  const facts = { version: "1.2.3", commit: "abc", changes: ["One", "Two"], since: "v1.2.2" };
  const notes = releaseNotes({ ...facts, binaries: [binary, { ...binary, startCpuMs: undefined }] });
  const lines = notes.split("\n");
  const held = "`canopy-linux-x64`, 12.0 MB: ONNX Runtime 2.5 MB, the rest 9.5 MB";
  assert.ok(lines.includes(`- ${held}; \`canopy version\` takes 160 ms of CPU time`), notes);
  assert.ok(lines.includes(`- ${held}; not started here (another platform)`), notes);
  assert.ok(notes.endsWith("## Changes since v1.2.2\n\n- One\n- Two\n"), notes);
});

test("of very many changes the newest are listed, and the number of the others", () => {
  const changes = Array.from({ length: 203 }, (_, at) => `change ${at}`);
  const notes = releaseNotes({ version: "1.0.0", commit: "abc", changes, since: undefined, binaries: [] });
  assert.ok(notes.endsWith(
    "## Changes: the first release\n\n" +
      `${changes.slice(0, 200).map((change) => `- ${change}`).join("\n")}\n- and 3 earlier ones\n`,
  ));
});

test("targets are read by name, and one that is not known is refused with those that are", () => {
  assert.deepEqual(readTargets(TARGETS.map(targetName).join(",")), TARGETS);
  assert.throws(() => readTargets("linux-x64,mac"), /There is no target mac: name linux-x64 or linux-arm64/);
});
