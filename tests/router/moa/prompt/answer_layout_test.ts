import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { parseResponsesFormat, type Piece } from "../../../../router/moa/graph/template.ts";
import { fillPieces, layOut, type Precursor } from "../../../../router/moa/prompt/answer_layout.ts";

const agents = ["a", "b", "c"];

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom("Q: ", "\n", "x ", "").map((text): Piece => ({ kind: "literal", text })),
    fc.constant<Piece>({ kind: "responses" }),
    fc.constantFrom(...agents, "unknown").map((agent): Piece => ({ kind: "answer", agent })),
  ),
  { maxLength: 5 },
);

const format = fc.record({
  item: fc.array(fc.constantFrom("[index]", "[agent]", "[answer]", ". ", "\n")).map((parts) =>
    parts.join("")
  ),
  separator: fc.constantFrom("", "\n\n", " | "),
}).map(parseResponsesFormat);

/** One precursor's fate: its answer, whether it fails, and when it ends. */
const fate = fc.record({
  text: fc.oneof(fc.constant(""), fc.string({ maxLength: 6 }).map((text) => text.trim())),
  fails: fc.boolean(),
  endsAt: fc.nat(30),
  perStep: fc.integer({ min: 0, max: 3 }),
});

test("what is known of a prompt begins the filled one, whatever its precursors still write", () => {
  fc.assert(
    fc.property(
      pieces,
      format,
      fc.tuple(fate, fate, fate),
      fc.constantFrom("declared" as const, "completion" as const),
      fc.boolean(),
      (pieces, responses, fates, slots, trims) => {
        const members = fates.map((fate, index) => ({
          ...fate,
          agent: agents[index]!,
          sequence: fate.endsAt * 10 + index,
        }));
        const inOrder = slots === "declared" ? members : [...members].sort((a, b) => a.sequence - b.sequence);
        for (let now = 0; now <= 31; now++) {
          const precursors = members.map(({ agent, text, fails, endsAt, perStep, sequence }): Precursor => {
            if (now <= endsAt) return { agent, state: "writing", text: text.slice(0, now * perStep).trim() };
            return fails ? { agent, state: "gone" } : { agent, state: "answered", text, sequence };
          });
          const known = layOut(pieces, { precursors, responses, slots, trims });
          // One that fails later takes its text with it; until then it may answer.
          const answers = inOrder.filter(({ fails, endsAt }) => !fails || now <= endsAt);
          const filled = fillPieces(pieces, answers, responses);
          const text = known.parts.join("");
          assert.ok(filled.startsWith(text), JSON.stringify([text, filled]));
          if (known.complete) assert.equal(text, filled);
          if (now === 31 && !trims) assert.ok(known.complete);
        }
      },
    ),
    { numRuns: 500 },
  );
});
