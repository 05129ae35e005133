import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isJsonObject } from "../../base/json.ts";
import { HANG_MS } from "../until.ts";
import { runBinary, startBinary } from "./binary.ts";

// The models inside of the binary, in an empty folder far away from the sources.

test(
  "canopy serve laboratory answers from the binary alone, with tree and scorer",
  { timeout: HANG_MS },
  async () => {
    const cwd = await mkdtemp(join(tmpdir(), "canopy-empty-"));
    try {
      const canopy = await startBinary(["serve", "laboratory", "--port", "0"], { cwd });
      try {
        const response = await fetch(`${canopy.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: "moa",
            messages: [{
              role: "user",
              content: "There are 12 cups. Ida buys 30 cups. How many cups are there?",
            }],
          }),
        });
        const answer: unknown = await response.json();
        assert.ok(isJsonObject(answer) && response.status === 200, JSON.stringify(answer));
        assert.match(JSON.stringify(answer.choices), /The answer is/);
        await canopy.says(/The scorer is ready[^]*laboratory\/embedding/);
      } finally {
        assert.equal(await canopy.stop(), 0, canopy.output());
      }
      assert.deepEqual(await readdir(cwd), []);
    } finally {
      await rm(cwd, { recursive: true });
    }
  },
);

test("canopy demo --real shows ten questions from the binary alone", { timeout: HANG_MS }, async () => {
  const cwd = await mkdtemp(join(tmpdir(), "canopy-empty-"));
  try {
    const { code, stdout, stderr } = await runBinary(["demo", "--real"], { cwd });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Question 10 of 10: /m);
    assert.match(stdout, /^#4 tree, incremental prefill, early exit +\d+ of 10 /m);
  } finally {
    await rm(cwd, { recursive: true });
  }
});
