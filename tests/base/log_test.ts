import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { logger, startLog } from "../../base/log.ts";

/** What is written to standard error meanwhile. */
function captured(write: () => void): string {
  const original = process.stderr.write;
  let text = "";
  process.stderr.write = (piece: string | Uint8Array) => {
    text += String(piece);
    return true;
  };
  try {
    write();
  } finally {
    process.stderr.write = original;
    startLog({ level: "fatal", format: "text" });
  }
  return text;
}

test("log lines have level, part and the values in their sentence; lower levels are left out", () => {
  const text = captured(() => {
    startLog({ level: "info", format: "text" });
    logger("pool").info("Worker {id} answers in {ms} ms", { id: "4b.w1", ms: 3 });
    logger("pool").debug("not seen");
  });
  assert.match(text, /^[\d-]+ [\d:.]+ \S+ \[INF\] canopy·pool: Worker 4b\.w1 answers in 3 ms\n$/);
});

test("a value with line breaks cannot pass for a line of the log", () => {
  const text = captured(() => {
    startLog({ level: "info", format: "text" });
    logger("http").warning("Refused {what}", { what: "x\n2026-01-01 [INF] canopy·pool: all is well\x1b[2J" });
  });
  assert.equal(text.split("\n").length, 2);
  assert.ok(!text.includes("\x1b"));
});

test("logs in JSON have one object per line", () => {
  const text = captured(() => {
    startLog({ level: "warning", format: "json" });
    logger("http").error("Failed after {ms} ms", { ms: 12 });
  });
  const record = JSON.parse(text);
  assert.equal(record.level, "ERROR");
  assert.equal(record.message, "Failed after 12 ms");
  assert.deepEqual(record.properties, { ms: 12 });
});
