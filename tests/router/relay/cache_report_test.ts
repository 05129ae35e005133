import assert from "node:assert/strict";
import { test } from "node:test";
import { cacheReportIn } from "../../../router/relay/cache_report.ts";
import { fc } from "../../properties.ts";

const encoder = new TextEncoder();

test("what engines say of the cache is found in an answer of SGLang, of vLLM, and in a stream's last events", () => {
  const native = {
    text: "x".repeat(5_000),
    meta_info: { prompt_tokens: 70, cached_tokens: 64, e2e_latency: 1 },
  };
  const openai = {
    usage: { prompt_tokens: 70, total_tokens: 80, prompt_tokens_details: { cached_tokens: 64 } },
  };
  for (
    const text of [
      JSON.stringify(native),
      JSON.stringify(openai, null, 1),
      `data: ${JSON.stringify(openai)}\n\ndata: [DONE]\n\n`,
    ]
  ) assert.deepEqual(cacheReportIn(encoder.encode(text)), { promptTokens: 70, cachedTokens: 64 });
});

test("an answer that says nothing of the cache, or something else, is no report", () => {
  for (
    const text of [
      '{"usage":{"prompt_tokens":5,"prompt_tokens_details":null}}',
      '{"cached_tokens":null,"prompt_tokens":5}',
      '{"cached_tokens":5}',
      "",
    ]
  ) assert.equal(cacheReportIn(encoder.encode(text)), undefined);
  fc.assert(fc.property(fc.uint8Array({ maxLength: 3_000 }), (bytes) => void cacheReportIn(bytes)));
});
