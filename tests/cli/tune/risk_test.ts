import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { Random } from "../../../base/random.ts";
import { loadCheckedConfig } from "../../../cfgs/load/load.ts";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import type { RecordedRun } from "../../../cli/tune/runs/recorded_run.ts";
import { agreementRules, posteriorRules, type TriedRule } from "../../../cli/tune/runs/run_rules.ts";
import { tuneRuns } from "../../../cli/tune/runs/tune_runs.ts";
import { tuneCommand } from "../../../cli/tune/tune.ts";
import { type Drawn, drawn, finalAnswerOf } from "../../drawn_votes.ts";
import { fakeIo } from "../fake_io.ts";

/** As `GET /v1/runs/ID` gives it. */
function recordOf({ leaves, root }: Drawn, index: number, more: object = {}) {
  const agent = (id: string, model: string, value: number, ms: number) => ({
    id,
    model,
    state: "done",
    prompt: { kind: "chat", messages: [{ role: "user", content: "How many apples are left?" }] },
    text: `So it comes to that.\nThe answer is ${value}.`,
    finish_reason: "stop",
    first_token_at_ms: ms / 2,
    ended_at_ms: ms,
  });
  const agents = [
    ...leaves.map(({ model, value, ms }, at) =>
      agent(`l1.c${1 + Math.floor(at / 3)}.a${1 + at % 3}`, model, value, ms)
    ),
    ...[1, 2, 3].map((at) => agent(`l2.c1.a${at}`, ["small", "middle", "large"][at - 1]!, root, 6_000)),
    agent("l3.c1.a1", "large", root, 9_000),
  ];
  const usage = { agents: agents.map(({ id }) => ({ agent: id, completion_tokens: 100 })) };
  return { object: "run", id: `run_${index}`, state: "done", agents, usage, ...more };
}

/** The same as it is read. */
function runOf({ leaves, root }: Drawn): RecordedRun {
  const votes = leaves.map(({ model, value, ms }) => ({
    model,
    answer: finalAnswerOf(value),
    atMs: ms,
    value,
  })).sort((a, b) => a.atMs - b.atMs);
  const values = [...new Set(votes.map(({ value }) => value))];
  const groups = values.map((value) => votes.flatMap((vote, index) => vote.value === value ? [index] : []));
  return {
    votes,
    groups,
    good: new Set(values.flatMap((value, index) => value === root ? [index] : [])),
    wholeRight: true,
    right: undefined,
    leaves: 9,
    wholeMs: 9_000,
    wholeTokens: 1_300,
    tokensUntil: (atMs) => 1_300 * atMs / 9_000,
  };
}

async function tune(lines: readonly object[], args: readonly string[], config?: string) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-risk-"));
  try {
    if (config !== undefined) writeFileSync(join(cwd, "canopy.jsonc"), config);
    const input = lines.map((line) => JSON.stringify(line)).join("\n");
    const io = fakeIo({ input, cwd, clock: new SystemClock() });
    const code = await runCommand([tuneCommand], ["tune", "-", ...args], io);
    const written = config === undefined ? "" : readFileSync(join(cwd, "canopy.jsonc"), "utf8");
    return { code, out: io.out.text, err: io.err.text, written };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

const CONFIG = `{
  // The tree.
  "graphs": {
    "moa": {
      "layers": [], // none yet
      "early_exit": { "never_skip": ["large"] }
    }
  }
}
`;

test("a rule with a promise comes out of records of runs, and is written into a configuration whose comments stay", async () => {
  const random = new Random("records");
  const records = Array.from({ length: 400 }, (_, index) => recordOf(drawn(random), index));
  const { code, out, err, written } = await tune(
    records,
    ["--risk", "0.05", "--write", "canopy.jsonc"],
    CONFIG,
  );
  assert.equal(code, 0, err);
  assert.match(out, /Replayed: 400 runs/);
  assert.match(out, /With 95 % confidence at most 5\.0 % of the runs are made worse, from \d+ runs/);
  assert.match(err, /Wrote graphs\.moa\.early_exit in canopy\.jsonc/);
  assert.match(written, /\/\/ The tree\./);
  assert.match(written, /\/\/ none yet/);
  const text = written.replace(/\/\/.*$/gm, "");
  const settings = earlyExitSchema.parse(JSON.parse(text).graphs.moa.early_exit);
  assert.equal(settings.scope, "run");
  assert.deepEqual(settings.never_skip, ["large"]);
  const { agree, posterior, audit, usual_votes: votes, tuned } = settings.consensus;
  assert.ok((agree !== undefined) !== (posterior !== undefined));
  assert.equal(audit, 0.01);
  assert.equal(tuned?.["risk"], 0.05);
  // What is usual is counted over the runs that the promise is from.
  const all = Object.values(votes ?? {}).reduce((sum, runs) => sum + runs, 0);
  assert.deepEqual([all, all - (votes?.["never"] ?? 0)], [tuned?.["runs"], tuned?.["exits"]]);
  assert.match(String(tuned?.["records_sha256"]), /^[0-9a-f]{64}$/);
});

test("rules for whole runs take the place of a metric for clusters: both at once are refused by canopy check", async () => {
  const random = new Random("records");
  const records = Array.from({ length: 400 }, (_, index) => recordOf(drawn(random), index));
  const config = JSON.stringify({
    models: Object.fromEntries(
      ["small", "middle", "large"].map((
        model,
      ) => [model, { model, engine: "vllm", workers: [`http://${model}:1`] }]),
    ),
    graphs: {
      moa: {
        layers: [{ agents: ["small", "middle", "large"].map((model) => ({ model })) }, {
          agents: [{ model: "large" }],
        }],
        early_exit: { metric: "agreement", never_skip: ["large"] },
      },
    },
  });
  const { code, err, written } = await tune(records, ["--risk", "0.05", "--write", "canopy.jsonc"], config);
  assert.equal(code, 0, err);
  assert.match(err, /Wrote graphs\.moa\.early_exit in canopy\.jsonc, in place of metric "agreement"\n/);
  const { config: { graphs } } = loadCheckedConfig({ text: written, env: {} });
  const { scope, metric, never_skip: neverSkip } = graphs["moa"]!.early_exit;
  assert.deepEqual([scope, metric, neverSkip], ["run", "none", ["large"]]);
});

test("rules take the place of those that were there, and what else is said of consensus stays", async () => {
  const random = new Random("records");
  const records = Array.from({ length: 400 }, (_, index) => recordOf(drawn(random), index));
  const config = `{
  "graphs": {
    "moa": {
      "layers": [],
      "early_exit": {
        "consensus": {
          "share": 0.5,
          "coincidence": 0.3,
          "undecided": "leader",
          "finish": "rewrite", // As a person would write it.
          "best": "first"
        }
      }
    }
  }
}
`;
  const { written, err } = await tune(records, ["--risk", "0.05", "--write", "canopy.jsonc"], config);
  assert.match(written, /\/\/ As a person would write it\./, err);
  const { early_exit } = JSON.parse(written.replace(/\/\/.*$/gm, "")).graphs.moa;
  const { consensus } = earlyExitSchema.parse(early_exit);
  assert.deepEqual([consensus.finish, consensus.best, consensus.audit], ["rewrite", "first", 0.01]);
  assert.deepEqual([consensus.share, early_exit.consensus.coincidence], [undefined, undefined]);
  // The promise says nothing of runs that no rule has ended.
  assert.equal(consensus.undecided, "root");
});

test("too few runs are refused with the number that it takes, and runs that ended early are left out", async () => {
  const random = new Random("few");
  const records = Array.from({ length: 150 }, (_, index) => recordOf(drawn(random), index));
  const early = records.slice(0, 20).map((record) => ({
    ...record,
    agents: record.agents.map((agent, at) => at === 3 ? { ...agent, state: "cancelled" } : agent),
  }));
  const { code, err } = await tune([...records.slice(20), ...early], ["--risk", "0.02"]);
  assert.notEqual(code, 0);
  assert.match(
    err,
    /Cannot promise a risk of 2 % with 95 % confidence from 130 whole runs: it takes at least 149/,
  );
});

test("lines that are no records of runs, and options that need others, are refused by name", async () => {
  assert.match((await tune([{ text: "5" }], ["--risk", "0.02"])).err, /line 1: it is no record of a run/);
  assert.match((await tune([], ["--write", "canopy.jsonc"])).err, /--write needs --risk/);
  assert.match((await tune([], ["--risk", "0.1", "--graph", "moa"])).err, /--graph needs --write/);
  for (const option of ["--max-wrong=0.1", "--model=m", "--max-tokens=99", "--write-whitening=w"]) {
    const { code, err } = await tune([], ["--risk", "0.1", option]);
    assert.equal(code, 2);
    assert.ok(err.includes(`${option.split("=")[0]} is for single answers: leave it out with --risk`), err);
  }
  const random = new Random("place");
  const records = Array.from({ length: 200 }, (_, index) => recordOf(drawn(random), index));
  const named = ["--risk", "0.2", "--write", "canopy.jsonc", "--graph", "other"];
  assert.match((await tune(records, named, CONFIG)).err, /it has no graph other; its graphs: moa/);
});

test("with labels a rule is worse only where it takes a right answer away", async () => {
  // The first four say 7, and so does the root: against the label that is no worse than the whole run.
  const leaves = [7, 7, 7, 7, 100, 100, 100, 5, 6].map((value, at) => ({
    model: "small",
    value,
    ms: 100 * at,
  }));
  const wrong = Array.from(
    { length: 200 },
    (_, index) => recordOf({ leaves, root: 7 }, index, { label: 100 }),
  );
  const { out } = await tune(wrong, ["--risk", "0.05"]);
  assert.match(out, /4 agree.*100\.0 %\s+0\.0 %/);
  const right = Array.from(
    { length: 200 },
    (_, index) => recordOf({ leaves, root: 100 }, index, { label: 100 }),
  );
  assert.match((await tune(right, ["--risk", "0.05"])).out, /4 agree.*100\.0 %\s+100\.0 %/);
});

/** Share of runs that a rule makes worse. */
function riskOf(
  { written }: TriedRule,
  runs: readonly RecordedRun[],
  agreement: readonly TriedRule[],
): number {
  const { agree, posterior, difficulties } = written;
  const rules = agree === undefined ? posteriorRules(runs, difficulties!) : agreement;
  const own = rules.find((rule) => rule.written.agree === agree && rule.written.posterior === posterior)!;
  return own.losses / own.runs;
}

// 200 of them take a minute: CANOPY_TUNINGS=200.
test("of many tunings on samples of their own, few break their promise, and they save time", () => {
  const tunings = Number(process.env["CANOPY_TUNINGS"] ?? 16);
  const random = new Random("tunings");
  const world = Array.from({ length: 3_000 }, () => runOf(drawn(random)));
  const agreement = agreementRules(world);
  const goal = { risk: 0.05, confidence: 0.9 };
  let broken = 0;
  let saved = 0;
  for (let tuning = 0; tuning < tunings; tuning++) {
    const runs = Array.from({ length: 240 }, () => runOf(drawn(random)));
    const { chosen } = tuneRuns({ runs, labelled: false, left: 0, sha256: "" }, goal, random);
    if (chosen === undefined) continue;
    saved += chosen.timeSaved / tunings;
    if (riskOf(chosen, world, agreement) > goal.risk) broken++;
  }
  if (tunings > 16) {
    process.stdout.write(`Promises broken: ${broken} of ${tunings}; time saved: ${saved}
`);
  }
  // In a tenth of them they may; four standard deviations more.
  assert.ok(broken <= tunings * 0.1 + 4 * Math.sqrt(tunings * 0.09), `${broken} of ${tunings}`);
  assert.ok(saved > 0.3, `${saved}`);
});

test("a risk that no rule keeps gives none, and says so", () => {
  const random = new Random("none");
  const runs = Array.from({ length: 300 }, () => {
    const run = runOf(drawn(random));
    return { ...run, good: new Set<number>() };
  });
  const { chosen, safe } = tuneRuns({ runs, labelled: false, left: 0, sha256: "" }, {
    risk: 0.02,
    confidence: 0.95,
  }, random);
  assert.equal(chosen, undefined);
  assert.deepEqual(safe, []);
  assert.throws(
    () =>
      tuneRuns({ runs: runs.slice(0, 10), labelled: false, left: 0, sha256: "" }, {
        risk: 0.02,
        confidence: 0.95,
      }, random),
    (error) => CanopyError.is(error) && error.code === "too_few_runs",
  );
});
