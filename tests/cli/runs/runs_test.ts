import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import picocolors from "picocolors";
import { chatCommand } from "../../../cli/chat/chat.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { compared } from "../../../cli/runs/compared.ts";
import { replayNotes } from "../../../cli/runs/replay_notes.ts";
import { runsCommand } from "../../../cli/runs/runs.ts";
import { readShownRun } from "../../../cli/runs/shown_run.ts";
import { exitsOf, waterfall } from "../../../cli/runs/waterfall.ts";
import { scoreCommand } from "../../../cli/score/score.ts";
import { tuneCommand } from "../../../cli/tune/tune.ts";
import { fakeIo } from "../fake_io.ts";
import { withServedDemo, withSystem } from "../served.ts";

const counts = (tokens: number) => ({
  calls: 1,
  prompt_tokens: 10,
  completion_tokens: tokens,
  cached_tokens: null,
  wasted_tokens: 0,
});
const agent = (
  id: string,
  state: string,
  times: readonly (number | null)[],
  error: string | null = null,
) => ({
  id,
  model: "4b",
  state,
  text: "x",
  error,
  started_at_ms: times[0] ?? null,
  first_token_at_ms: times[1] ?? null,
  ended_at_ms: times[2] ?? null,
});

const RUN = readShownRun({
  id: "run_1",
  object: "run",
  graph: "moa",
  state: "done",
  created: 0,
  duration_ms: 1000,
  error: null,
  usage: {
    ...counts(30),
    agents: [{ agent: "l1.c1.a1", ...counts(21) }, { agent: "l2.c1.a1", ...counts(9) }],
  },
  agents: [
    agent("l1.c1.a1", "done", [0, 100, 500]),
    agent("l1.c1.a2", "cancelled", [0, 250, 500]),
    agent("l1.c1.a3", "failed", [0, null, 250], "no such\nmodel"),
    agent("l2.c1.a1", "done", [500, 600, 1000]),
    agent("l3.c1.a1", "waiting", []),
  ],
  exits: [{ cluster: "l1.c1", metric: "answer", at_ms: 500, completions: 1, exit: true, late: false, ms: 1 }],
  root_skipped: true,
});

test("a run is drawn as a waterfall: waiting for the first token, writing, cut off, failed with its reason", () => {
  assert.deepEqual(waterfall(RUN, 71, picocolors.createColors(false)), [
    "              0                     1.00 s",
    "l1.c1.a1  4b  ░░░███████████                   21 tok    50/s   0.50 s",
    "l1.c1.a2  4b  ░░░░░░░███████×                                   0.50 s  cancelled",
    "l1.c1.a3  4b  ░░░░░░░×                                          0.25 s  failed",
    "l2.c1.a1  4b                ░░░███████████      9 tok    20/s   0.50 s",
    "l3.c1.a1  4b                                waiting",
    "l1.c1.a3 failed: no such model",
  ]);
  assert.deepEqual(exitsOf(RUN), [
    "l1.c1 went on after 1 answers, by answer, at 0.50 s",
    "the root was not asked: the answer is one of those before it",
  ]);
});

test("an agent that another model answered for is named with the reason, whatever stands in its name", () => {
  const other = { model: "32\nb", reason: "no_worker" };
  const run = { ...RUN, agents: RUN.agents.map((one, at) => at === 0 ? { ...one, fallback: other } : one) };
  assert.equal(
    waterfall(run, 80, picocolors.createColors(false)).at(-1),
    "l1.c1.a1 was asked of 32 b: no worker of its own model could take it",
  );
});

test("of a run whose texts were not recorded nothing is compared, shown or judged as if they were empty", async () => {
  const bare = { ...RUN, texts_kept: false };
  assert.match(compared(bare, RUN).join("\n"), /^l1\.c1\.a1 .* not kept$/m);
  assert.doesNotMatch(compared(bare, RUN).join("\n"), / same$| other$/m);
  const input = `${JSON.stringify({ object: "run", id: "run_1", texts_kept: false, agents: RUN.agents })}\n`;
  for (const args of [["tune", "-"], ["tune", "-", "--risk", "0.02"], ["score", "-"]]) {
    const io = fakeIo({ input });
    assert.equal(await runCommand([tuneCommand, scoreCommand], args, io), 1);
    assert.match(io.err.text, /Cannot read answers from -, line 1: the record of the run has no answers/);
  }
});

test("a replay says what keeps it from being the same, and why a record cannot be asked again", async () => {
  const drawn = (temperature: number | null, seed: unknown = null) => ({ temperature, seed });
  const as = (sampling: readonly ReturnType<typeof drawn>[], graph_hash = "aa") => ({
    ...RUN,
    graph_hash,
    agents: RUN.agents.map((one, at) => ({ ...one, sampling: sampling[at] })),
  });
  const every = (sampling: ReturnType<typeof drawn>) => RUN.agents.map(() => sampling);
  assert.deepEqual(replayNotes(as(every(drawn(0))), as(every(drawn(0))), undefined), [
    "All agents have a seed, or temperature 0: engines that batch may still answer otherwise",
  ]);
  const notes = replayNotes(
    as([]),
    as([drawn(0.7), drawn(1, 7), ...every(drawn(null)).slice(2)], "bb"),
    "12",
  );
  assert.deepEqual(notes, [
    "moa is configured otherwise than in A: its agents, prompts or parameters have changed (aa, now bb)",
    "A was asked without a seed: B has 12, by which A's early exits drew, and its last agent samples by it",
    "4 of 5 agents sample without a seed (l1.c1.a1, l1.c1.a3, l2.c1.a1, …): what they say may change from run to run; " +
    "give them a sampling.seed, or temperature 0",
  ]);
  assert.deepEqual(replayNotes(RUN, RUN, undefined), []);
  for (
    const [texts_kept, why] of [[false, /set server\.records\.texts to true/], [true, /of its own/]] as const
  ) {
    const io = fakeIo({ input: JSON.stringify({ ...RUN, texts_kept, request: null }) });
    assert.equal(await runCommand([runsCommand], ["runs", "replay", "--from", "-"], io), 1);
    assert.match(io.err.text, why);
  }
});

test("canopy runs lists, shows, compares and exports what a server has done; tune reads the export", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-runs-"));
  const canopy = (url: string, ...args: string[]) =>
    withSystem(async (io) => {
      const code = await runCommand([runsCommand, chatCommand, tuneCommand], args, io);
      return { code, out: io.out.text, err: io.err.text };
    }, { cwd: folder, env: { CANOPY_URL: url } });
  try {
    await withServedDemo(async (url) => {
      assert.match((await canopy(url, "runs", "list")).out, /knows no such run/);
      const none = await canopy(url, "runs", "show");
      assert.equal(none.code, 1);
      assert.match(none.err, /knows no run yet/);
      for (const model of ["moa", "moa-dense"]) await canopy(url, "chat", "How much?", "--model", model);
      const listed = await canopy(url, "runs", "list");
      assert.match(
        listed.out,
        /^run +graph +state +age +took +calls +tokens\n─.*\nrun_\w+ +moa-dense +done .*\nrun_\w+ +moa +done /,
      );
      assert.equal(JSON.parse((await canopy(url, "runs", "list", "--json", "--limit", "1")).out).length, 1);
      assert.match((await canopy(url, "runs", "list", "--state", "failed")).out, /knows no such run/);
      const ofGraph = await canopy(url, "runs", "list", "--model", "moa", "--json");
      assert.deepEqual(JSON.parse(ofGraph.out).map(({ graph }: { graph: string }) => graph), ["moa"]);
      const shown = await canopy(url, "runs", "show", "--texts");
      assert.match(shown.out, /^run_\w+: moa-dense, done in \d+\.\d\d s\n19 calls, /);
      assert.equal(shown.out.match(/^l\d\.c\d\.a\d +\d+b .*[░█▏].* tok /gm)?.length, 19);
      assert.equal(shown.out.match(/^----- l\d/gm)?.length, 19);
      const id = JSON.parse((await canopy(url, "runs", "show", "--json")).out).id;
      const diff = await canopy(url, "runs", "diff", id, "last");
      assert.match(diff.out, /^A run_\w+: moa-dense, done.*\nB run_\w+: moa-dense/);
      assert.equal(diff.out.match(/ same$/gm)?.length, 19);
      assert.equal((await canopy(url, "runs", "diff", id)).code, 2);
      assert.equal((await canopy(url, "runs", "cancel")).code, 2);
      assert.match((await canopy(url, "runs", "cancel", "run_nope")).err, /There is no run "run_nope"/);
      assert.match((await canopy(url, "runs", "cancel", "last")).out, /^run_\w+ is cancelled\n$/);
      const replayed = await canopy(url, "runs", "replay", id);
      assert.equal(replayed.err, "Asking moa-dense again …\n");
      assert.match(replayed.out, /^A run_\w+: moa-dense, done.*\nB run_\w+: moa-dense, done/);
      assert.equal(replayed.out.match(/ same$/gm)?.length, 19, replayed.out);
      assert.match(replayed.out, /\n\nAll agents have a seed/);
      const exported = await canopy(url, "runs", "export", "runs.jsonl", "--model", "moa");
      assert.equal(exported.err, "1 runs in runs.jsonl\n");
      const other = await canopy(url, "runs", "replay", "--from", "runs.jsonl", "--model", "moa-dense");
      assert.match(other.out, /^A run_\w+: moa, done.*\nB run_\w+: moa-dense, done/);
      const unknown = await canopy(url, "runs", "replay", "run_nope", "--from", "runs.jsonl");
      assert.match(unknown.err, /Cannot replay run_nope from runs\.jsonl: there is no such run among its 1/);
      const lines = readFileSync(join(folder, "runs.jsonl"), "utf8").trim().split("\n");
      assert.equal(JSON.parse(lines[0]!).agents.length, 13);
      const traced = await canopy(url, "runs", "export", id, "trace.json", "--format", "chrome");
      assert.equal(traced.err, `${id} as a trace in trace.json\n`);
      const { traceEvents } = JSON.parse(readFileSync(join(folder, "trace.json"), "utf8"));
      const names = traceEvents.flatMap((event: { name: string }) => event.name === "decode" ? [1] : []);
      assert.equal(names.length, 19);
      assert.equal((await canopy(url, "runs", "export", id, "--format", "chrome", "--model", "moa")).code, 2);
      assert.equal((await canopy(url, "runs", "export", "a.jsonl", "b.jsonl")).code, 2);
      const again = await canopy(url, "runs", "export", "runs.jsonl");
      assert.match(again.err, /runs\.jsonl is there already: add --force/);
      const tuned = await canopy(url, "tune", join(folder, "runs.jsonl"), "--risk", "0.02");
      assert.match(tuned.out + tuned.err, /runs/);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
