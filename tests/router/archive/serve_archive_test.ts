import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import type { FromArchive } from "../../../router/archive/archive_thread.ts";
import { serveArchive } from "../../../router/archive/serve_archive.ts";
import { inFolder, madeRun } from "./made_runs.ts";

test("old runs that cannot be removed are told once, and again once some could be; where none is written none is looked for", async () => {
  await inFolder((folder) => {
    const path = join(folder, "runs");
    const told: string[] = [];
    const post = ({ kind }: FromArchive) => void told.push(kind);
    // All runs of 1970 are too old.
    const take = serveArchive({ path, bounds: { maxAgeMs: 1000, maxBytes: 1e8 } }, new VirtualClock(), post);
    const raw = new DatabaseSync(path);
    let number = 0;
    const add = (): string[] => {
      told.length = 0;
      for (let i = 0; i < 3; i++) take({ kind: "add", number: ++number, run: madeRun(number) });
      return [...told];
    };
    const locked = "CREATE TRIGGER stays BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'it stays'); END";
    raw.exec(locked);
    assert.deepEqual(add(), ["added", "unpruned", "added", "added"]);
    assert.deepEqual(add(), ["added", "added", "added"]);
    raw.exec("DROP TRIGGER stays");
    assert.deepEqual(add(), ["added", "added", "added"]);
    raw.exec(`ALTER TABLE runs RENAME TO away`);
    assert.deepEqual(add(), ["failed", "failed", "failed"]);
    raw.exec(`ALTER TABLE away RENAME TO runs; ${locked}`);
    assert.deepEqual(add(), ["added", "unpruned", "added", "added"]);
    raw.close();
    take({ kind: "close" });
  });
});
