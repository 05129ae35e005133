import assert from "node:assert/strict";
import { until } from "../until.ts";
import { runBinary } from "./binary.ts";

/** Tokens of a run's spliced prompts, and those of them that were cached at the final prefill. */
export interface OverlapShare {
  readonly spliced: number;
  readonly cached: number;
}

/**
 * Runs that count together. Of each prompt the last tokens that its precursors wrote are not cached, 40 at most here,
 * however long their answers are: of one run of short answers, on a busy machine, that is now and then more than 5 %.
 */
const RUNS = 5;
const LEAST_SHARE = 0.95;

/** Asks five times; of all their spliced tokens together 95 % were cached. Every share is reported. */
export async function assertOverlap(
  ask: () => Promise<OverlapShare>,
  test: { diagnostic(message: string): void },
): Promise<void> {
  const all = { spliced: 0, cached: 0 };
  for (let run = 0; run < RUNS; run++) {
    const { spliced, cached } = await ask();
    test.diagnostic(shareText({ spliced, cached }));
    all.spliced += spliced;
    all.cached += cached;
  }
  assert.ok(all.cached >= LEAST_SHARE * all.spliced, shareText(all));
}

function shareText({ spliced, cached }: OverlapShare): string {
  return `${cached} of ${spliced} spliced tokens were cached, ${(100 * cached / spliced).toFixed(1)} %`;
}

/** Number of the last question: of one that was asked before the engines would have all prompts in their caches. */
let asked = 0;

/** Waits until a router makes the tokens of all its models itself, or asks their engines for them. */
export async function tokensKnown(url: string, by: "router" | "engine_asked" = "router"): Promise<void> {
  await until(`the tokens are made by ${by}`, async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const rows = [...metrics.matchAll(/^canopy_tokenizer\{.*by="(\w+)"\} 1$/gm)].map(([, who]) => who);
    return rows.length > 0 && rows.every((who) => who === by);
  });
}

/**
 * Asks a graph a question and gives what the answer's usage says was cached at the final prefill. The run record with
 * its trace, the metrics and `canopy doctor --live` must say the same.
 */
export async function overlapOf(url: string, graph: string, config: string): Promise<OverlapShare> {
  const before = await counted(url);
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: graph,
      messages: [{ role: "user", content: `${++asked} is one number: what is the sum of the next hundred?` }],
      canopy: { include: ["usage", "trace"] },
    }),
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const { usage, trace, run_id } = body.canopy;
  const { spliced_tokens: spliced, spliced_cached_tokens: cached, spliced_cached_share: share } = usage;
  assert.ok(spliced > 0, JSON.stringify(trace.filter(({ type }: { type: string }) => type === "warm_off")));
  assert.equal(share, Math.round(cached / spliced * 1e4) / 1e4);
  // Whose prompts were spliced was warmed, says the trace; and the agents' figures are the record's.
  const stopped = trace.filter(({ type }: { type: string }) => type === "warm_stopped")
    .map(({ agent }: { agent: string }) => agent);
  const readers = usage.agents.filter((one: { spliced_tokens: number }) => one.spliced_tokens > 0);
  assert.deepEqual(readers.map(({ agent }: { agent: string }) => agent).sort(), stopped.sort());
  const record = await (await fetch(`${url}/v1/runs/${run_id}`)).json();
  assert.deepEqual(record.usage, usage);
  const after = await counted(url);
  assert.equal(after.spliced - before.spliced, spliced);
  assert.equal(after.cached - before.cached, cached);
  const port = new URL(url).port;
  const doctor = await runBinary(["doctor", config, "--live", "--port", port, "--json"]);
  const { findings } = JSON.parse(doctor.stdout) as { findings: { text: string }[] };
  const said = findings.flatMap(({ text }) =>
    /^(\d+) % of (\d+) spliced tokens were cached/.exec(text)?.slice(1) ?? []
  );
  assert.equal(
    said.filter((_, at) => at % 2 === 1).reduce((sum, tokens) => sum + Number(tokens), 0),
    after.spliced,
  );
  return { spliced, cached };
}

/** Of all runs of a router, what its metrics say. */
async function counted(url: string): Promise<OverlapShare> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const sum = (kind: string) =>
    [...metrics.matchAll(new RegExp(`^canopy_tokens_total\\{[^}]*kind="${kind}"\\} (\\d+)`, "gm"))]
      .reduce((total, [, count]) => total + Number(count), 0);
  return { spliced: sum("spliced"), cached: sum("spliced_cached") };
}
