import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

test("each test that docs/drop-in.md names for what clients notice is there", () => {
  const root = new URL("../../../../", import.meta.url);
  const page = readFileSync(new URL("docs/drop-in.md", root), "utf8");
  const named = [...page.matchAll(/`(tests\/\S+_test\.ts)`: "([^"]+)"/g)];
  assert.ok(named.length >= 16, `${named.length} lines`);
  for (const [, file = "", sentence = ""] of named) {
    assert.ok(
      readFileSync(new URL(file, root), "utf8").includes(`test("${sentence}"`),
      `${file}: ${sentence}`,
    );
  }
});
