import assert from "node:assert/strict";
import { test } from "node:test";
import type { LaboratoryRow } from "../../../bench/laboratory/ask.ts";
import { conditionsOf } from "../../../bench/laboratory/conditions.ts";
import { laboratoryReport } from "../../../bench/report/laboratory_report.ts";
import { svgOf } from "../../../bench/report/svg.ts";

/** The places of texts on an SVG, groups' translations added up. */
function placesOf(svg: string, texts: ReadonlySet<string>): { text: string; x: number; y: number }[] {
  const places: { text: string; x: number; y: number }[] = [];
  const groups: (readonly [number, number])[] = [];
  const moved = (attributes: string) => {
    const [, x = "0", y = "0"] = /transform="translate\(([-\d.]+),([-\d.]+)\)/.exec(attributes) ?? [];
    return [Number(x), Number(y)] as const;
  };
  for (const [, close, name, attributes = "", text = ""] of svg.matchAll(/<(\/?)(\w+)([^>]*)>([^<]*)/g)) {
    if (name === "g" && close === "") groups.push(moved(attributes));
    if (name === "g" && close !== "") groups.pop();
    if (name !== "text" || !texts.has(text)) continue;
    const all = [...groups, moved(attributes)];
    const sum = (at: 0 | 1) => all.reduce((total, one) => total + one[at], 0);
    places.push({ text, x: sum(0), y: sum(1) });
  }
  return places;
}

test("in the plot of the laboratory every way has a name of its own, which no other one covers, however alike they are", async () => {
  const conditions = conditionsOf(new Set(["singles", "modes", "samples", "staircase", "exits"]), 1);
  const rowsOf = (condition: string) =>
    Array.from({ length: 10 }, (_, index): LaboratoryRow => ({
      condition,
      question: `q${index}`,
      right: index < 8,
      stated: null,
      latencyMs: 100,
      promptTokens: 100,
      completionTokens: 800,
      wastedTokens: 0,
      savedTokens: 0,
      decisions: 0,
      exits: 0,
      leaves: 9,
      differentAnswers: 2,
      rightAmongLeaves: true,
    }));
  const report = laboratoryReport({
    conditions: conditions.map((condition) => ({ condition, rows: rowsOf(condition.name) })),
    proposals: [],
  }, { origin: "nowhere", settings: {}, seed: "plot" });
  const names = new Set(conditions.map(({ name }) => name));
  const places = placesOf(await svgOf(report), names);
  assert.deepEqual(places.map(({ text }) => text).sort(), [...names].sort());
  for (const [index, one] of places.entries()) {
    for (const other of places.slice(index + 1)) {
      assert.ok(Math.abs(one.y - other.y) >= 12, `${one.text} covers ${other.text}`);
    }
  }
});
