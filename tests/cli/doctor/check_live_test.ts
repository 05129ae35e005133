import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { checkLive } from "../../../cli/doctor/check_live.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { fakeIo } from "../fake_io.ts";

const config = configSchema.parse({ models: {}, graphs: {} });

async function* bytesOf(text: string) {
  yield new TextEncoder().encode(await Promise.resolve(text));
}

async function said(metrics: string) {
  const transport = new MemoryTransport(() => () =>
    Promise.resolve({ status: 200, headers: {}, body: bytesOf(metrics) })
  );
  return await checkLive(config, 8000, fakeIo({ transport }));
}

test("canopy doctor --live reads shares by model, and who makes the tokens", async () => {
  const { findings, tokens } = await said(`# TYPE canopy_tokens_total counter
canopy_tokens_total{model="a",kind="prompt"} 9
canopy_tokens_total{model="a",kind="spliced"} 200
canopy_tokens_total{model="a",kind="spliced_cached"} 190
canopy_tokens_total{model="b",kind="spliced"} 100
canopy_tokens_total{model="b",kind="spliced_cached"} 10
canopy_tokens_total{model="c",kind="spliced_unreported"} 70
canopy_tokens_total{model="d",kind="spliced"} 100
canopy_tokens_total{model="d",kind="spliced_cached"} 10
canopy_warms_held_total{model="b",for="comparison"} 2
canopy_warms_held_total{model="d",for="precursors"} 12
canopy_tokenizer{model="a",by="router"} 1
canopy_tokenizer{model="b",by="engine_asked"} 1
canopy_tokenizer{model="c",by="engine"} 1
`);
  assert.deepEqual(findings.map(({ level, text }) => `${level}: ${text}`), [
    "ok: 95 % of 200 spliced tokens were cached at the final prefill",
    "warning: 10 % of 100 spliced tokens were cached at the final prefill",
    "ok: 10 % of 100 spliced tokens were cached at the final prefill; 12 prompts were not read ahead, since that " +
    "cost their precursors what it saved: GET /v1/runs/ID has the figures (warm_held)",
    "warning: its engine did not say how many of 70 spliced tokens it had cached: start it with " +
    "--enable-prompt-tokens-details (vLLM) or --enable-cache-report (SGLang)",
  ]);
  assert.deepEqual([...tokens], [["a", "router"], ["b", "engine_asked"]]);
});

test("canopy doctor --live says that no run has ended yet, or that nothing was spliced", async () => {
  const of = async (metrics: string) => (await said(metrics)).findings.map(({ text }) => text);
  assert.match((await of("")).join(), /^no run has ended yet/);
  assert.match(
    (await of('canopy_tokens_total{model="a",kind="prompt"} 9\n')).join(),
    /^no prompt of its runs was spliced/,
  );
});
