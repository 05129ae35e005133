import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { references } from "../../../release/reference/references.ts";
import { SchemaSections } from "../../../release/reference/schema_sections.ts";

test("the reference pages are as the code is: `deno task reference` writes them", async () => {
  const pages = await references();
  assert.equal(pages.size, 3);
  for (const [path, text] of pages) {
    const kept = readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
    const lines = kept.split("\n");
    const other = text.split("\n").findIndex((line, at) => line !== lines[at]);
    assert.ok(kept === text, `${path} is stale from line ${other + 1}: run deno task reference`);
  }
});

test("the sections of a schema have each object once, with values, defaults and meanings of its fields", () => {
  const limits = {
    type: "object",
    properties: { most: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER, default: 3 } },
  };
  const sections = new SchemaSections().sectionsOf("file", {
    type: "object",
    required: ["name"],
    properties: {
      name: { anyOf: [{ type: "string" }, { const: false }], description: "A name | none" },
      day: { ...limits, description: "By day" },
      nights: { type: "array", items: limits },
      by: { type: "object", additionalProperties: { enum: ["a", "b"] } },
      forms: {
        anyOf: [
          { type: "object", required: ["x"], properties: { x: { type: ["number", "null"] } } },
          { type: "object", properties: { type: { const: "y" } } },
        ],
      },
    },
  });
  assert.deepEqual(sections.map(({ heading }) => heading), [
    "file",
    "file.day",
    "file.forms with x",
    "file.forms with type y",
  ]);
  const rowsOf = (at: number) =>
    (sections[at]?.text ?? "").split("\n").filter((line) => line.startsWith("| `")).map((line) =>
      line.replaceAll(/ +/g, " ")
    );
  assert.deepEqual(rowsOf(0), [
    "| `name` | text or `false` | required | A name \\| none |",
    "| `day` | [object](#fileday) | | By day |",
    "| `nights` | list of [object](#fileday) | | |",
    '| `by` | object of `"a"`, `"b"`, by name | | |',
    "| `forms` | [object](#fileforms-with-x) or [object](#fileforms-with-type-y) | | |",
  ]);
  assert.deepEqual(rowsOf(1), ["| `most` | whole number, at least 1 | `3` | |"]);
  assert.deepEqual(rowsOf(2), ["| `x` | number or `null` | required | |"]);
});
