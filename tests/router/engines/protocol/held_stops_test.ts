import assert from "node:assert/strict";
import { test } from "node:test";
import type { GenerateEvent } from "../../../../router/engines/engine.ts";
import { heldStops } from "../../../../router/engines/protocol/held_stops.ts";

async function textOf(
  pieces: readonly string[],
  stops: readonly string[],
  stopReason?: string,
): Promise<string[]> {
  async function* events(): AsyncGenerator<GenerateEvent, void, void> {
    for (const text of pieces) yield { type: "delta", text };
    const usage = { promptTokens: 1, completionTokens: pieces.length, cachedTokens: undefined };
    yield { type: "end", finishReason: "stop", usage, ...(stopReason === undefined ? {} : { stopReason }) };
  }
  const texts: string[] = [];
  for await (const event of heldStops(events(), stops)) if (event.type === "delta") texts.push(event.text);
  return texts;
}

test("The streamed beginning of a stop string is dropped when the engine ends by that stop", async () => {
  assert.deepEqual(await textOf([" answer", " man"], ["nag"], "nag"), [" answer", " ma"]);
});

test("Text that looked like the beginning of a stop comes out when it was none", async () => {
  assert.deepEqual(await textOf([" man", " ways"], ["nag"]), [" ma", "n ways"]);
  assert.deepEqual(await textOf([" man"], ["nag"]), [" ma", "n"]);
  assert.deepEqual(await textOf([" man", ""], ["nag", "x"], "x"), [" ma", "", "n"]);
});
