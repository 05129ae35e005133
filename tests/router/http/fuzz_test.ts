import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often, SEED } from "../../properties.ts";
import {
  chatChunkSchema,
  chatCompletionSchema,
  completionSchema,
  errorSchema,
} from "../../../router/http/openai/response_schema.ts";
import { fakeApp, parseEvents } from "./fakes.ts";
import { openAiRequest } from "./openai/bodies.ts";

/** Over both OpenAI routes, in tests that are short each. */
const BODIES = often(300);
const SEEDS = [1, 2, 3, 4, 5];

for (const seed of SEEDS) {
  test(`${BODIES} bodies give only 2xx and 4xx, each 4xx naming what is wrong (seed ${seed})`, async () => {
    const { app, moa } = fakeApp();
    moa.remember = false;
    const counts = { answered: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(openAiRequest, async ([path, body]) => {
        const response = await app.request(path, { method: "POST", body });
        const text = await response.text();
        if (response.status === 200) {
          counts.answered++;
          checkAnswer(path, response, text);
          return;
        }
        counts.refused++;
        assert.ok(response.status >= 400 && response.status < 500, `${response.status}: ${text}`);
        assert.equal(response.headers.get("content-type"), "application/json");
        const { error } = errorSchema.parse(JSON.parse(text));
        assert.ok(error.param !== null, text);
        const root = error.param.split(/[.[]/)[0]!;
        assert.ok(error.message.includes(root) || /position \d+|character \d+/.test(error.message), text);
      }),
      { numRuns: BODIES, seed: SEED + seed },
    );
    // The generator must exercise both sides.
    assert.ok(counts.answered > BODIES / 5, JSON.stringify(counts));
    assert.ok(counts.refused > BODIES / 5, JSON.stringify(counts));
  });
}

function checkAnswer(path: string, response: Response, text: string): void {
  const chat = path.includes("chat");
  if (response.headers.get("content-type") === "application/json") {
    (chat ? chatCompletionSchema : completionSchema).parse(JSON.parse(text));
    return;
  }
  const events = parseEvents(text);
  assert.equal(events.pop(), "[DONE]");
  for (const event of events) (chat ? chatChunkSchema : completionSchema).parse(event);
}
