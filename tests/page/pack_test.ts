import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { hashOfSources, PACKED_PAGE, packPage } from "../../page/pack.ts";

const packed: unknown = JSON.parse(readFileSync(PACKED_PAGE, "utf8"));

test("the page in the program is what its sources give: deno task page makes it", () => {
  assert.ok(typeof packed === "object" && packed !== null && "sources" in packed);
  assert.equal(packed.sources, hashOfSources(), "the sources have changed since: run deno task page");
  // Its bundler is Bun's: under Deno the hash above has to do.
  if (process.versions["bun"] !== undefined) assert.deepEqual(packed, packPage());
});
