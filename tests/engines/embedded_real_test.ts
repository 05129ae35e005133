/**
 * A real language model in the built program's own process: SmolLM2-135M-Instruct as `setup_real_model.sh` makes it.
 * What torch answers in 32 bits is recorded in the model's folder.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type CanopyProcess, lastRun, type RecordedRun, startCanopy } from "./canopy_process.ts";
import { enginesFolder } from "./engine_process.ts";
import { open, send } from "./http_request.ts";

/** The same weights in both layouts, by the name under which they are served here. */
const folders = {
  plain: join(enginesFolder, "smollm2-135m-instruct"),
  fused: join(enginesFolder, "smollm2-135m-instruct-fused"),
};
type Layout = keyof typeof folders;
const layouts: readonly Layout[] = ["plain", "fused"];

/** One answer of torch's. */
interface Recorded {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly prompt_ids: readonly number[];
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly text: string;
}

/** What these tests read of an answer. */
interface Completion {
  readonly prompt_token_ids: readonly number[];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
  readonly choices: readonly [{
    readonly message: { readonly content: string };
    readonly token_ids: readonly number[];
    readonly logprobs: { readonly content: readonly { readonly logprob: number }[] };
  }];
}

const question = "What is the capital of France?";
const names = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana", "Ivo"];

/** A 9-3-1 tree whose agents end where the model does, the first one of each three a little sooner. */
function tree(model: Layout, incrementalPrefill: "off" | "on") {
  const agents = (prompts: readonly string[]) =>
    prompts.map((prompt, at) => ({
      model,
      prompt,
      sampling: { temperature: 0, max_tokens: at === 0 ? 24 : 48 },
    }));
  const voices = names.map((_, at) => `voice-${at}`);
  return {
    layers: [
      { clusters: [0, 3, 6].map((first) => ({ agents: agents(voices.slice(first, first + 3)) })) },
      { agents: agents(["aggregate", "aggregate", "aggregate"]) },
      { agents: agents(["synthesize"]) },
    ],
    incremental_prefill: { mode: incrementalPrefill },
    early_exit: { metric: "none" },
  };
}

const config = JSON.stringify({
  models: Object.fromEntries(
    layouts.map((layout) => [layout, {
      model: folders[layout],
      engine: "onnx",
      onnx: { file: "onnx/model.onnx", cache_bytes: 512 * 2 ** 20 },
    }]),
  ),
  prompts: {
    ...Object.fromEntries(
      names.map((name, at) => [`voice-${at}`, `My name is ${name}. [input_prompts]`]),
    ),
    aggregate:
      "Question: [input_prompts]\n\nThese answers were given:\n\n[responses]\n\nWrite the best answer.",
  },
  graphs: Object.fromEntries(
    layouts.flatMap((layout) =>
      (["off", "on"] as const).map((mode) => [`${layout}-${mode}`, tree(layout, mode)])
    ),
  ),
});

async function ask(
  canopy: CanopyProcess,
  model: string,
  { messages, ids }: Recorded,
): Promise<Completion> {
  const answer = await send("POST", `${canopy.url}/v1/chat/completions`, {
    model,
    messages,
    temperature: 0,
    max_tokens: ids.length,
    logprobs: true,
    return_token_ids: true,
  });
  assert.equal(answer.status, 200, answer.text);
  return JSON.parse(answer.text);
}

function assertTorch({ prompt_token_ids, usage, choices: [choice] }: Completion, recorded: Recorded): void {
  assert.deepEqual(prompt_token_ids, recorded.prompt_ids);
  assert.deepEqual(choice.token_ids, recorded.ids);
  assert.equal(choice.message.content, recorded.text);
  assert.equal(usage.prompt_tokens, recorded.prompt_ids.length);
  assert.equal(usage.completion_tokens, recorded.ids.length);
  for (const [at, { logprob }] of choice.logprobs.content.entries()) {
    const expected = recorded.logprobs[at]!;
    assert.ok(Math.abs(logprob - expected) < 2e-3, `token ${at}: ${logprob} for ${expected}`);
  }
}

/** CPU time that a process has spent so far, in seconds (Linux counts hundredths). */
async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const missing = layouts.map((layout) => folders[layout]).find((folder) => !existsSync(join(folder, ".done")));
const skip = missing === undefined ? false : `${missing} is missing: run tests/engines/setup_real_model.sh`;

describe("A real model in the program's own process", { concurrency: false, skip }, () => {
  let canopy: CanopyProcess;
  let recorded: readonly Recorded[];
  before(async () => {
    recorded = JSON.parse(await readFile(join(folders.plain, "greedy.json"), "utf8")).cases;
    canopy = await startCanopy(config);
  });
  after(() => canopy?.stop());

  for (const layout of layouts) {
    describe(`${layout} layout, 32 bits`, { concurrency: false }, () => {
      const runs = new Map<string, RecordedRun>();

      test("prompts, answers and log-probabilities are torch's", async () => {
        for (const one of recorded) assertTorch(await ask(canopy, layout, one), one);
      });

      test("they are the same when all questions come at once", async () => {
        const answers = await Promise.all(recorded.map((one) => ask(canopy, layout, one)));
        for (const [at, answer] of answers.entries()) assertTorch(answer, recorded[at]!);
      });

      for (const mode of ["off", "on"]) {
        test(`a 9-3-1 tree with warming ${mode} answers, and usage is the sum of its 13 calls`, async (t) => {
          const answer = await send("POST", `${canopy.url}/v1/chat/completions`, {
            model: `${layout}-${mode}`,
            messages: [{ role: "user", content: question }],
          });
          assert.equal(answer.status, 200, answer.text);
          const run = await lastRun(canopy.url);
          runs.set(mode, run);
          const { usage } = run;
          const sum = (of: "prompt_tokens" | "completion_tokens" | "cached_tokens") =>
            usage.agents.reduce((total, agent) => total + (agent[of] ?? 0), 0);
          assert.equal(usage.calls, 13);
          assert.equal(usage.prompt_tokens, sum("prompt_tokens"));
          assert.equal(usage.completion_tokens, sum("completion_tokens"));
          assert.equal(usage.cached_tokens, sum("cached_tokens"));
          const body: Completion = JSON.parse(answer.text);
          assert.equal(body.usage.completion_tokens, usage.completion_tokens);
          assert.equal(body.choices[0].message.content, run.agents.at(-1)?.text);
          t.diagnostic(`${usage.cached_tokens} of ${usage.prompt_tokens} tokens cached`);
          const proposals = run.agents.slice(0, 9).filter(({ text }) => text.includes("Paris"));
          t.diagnostic(`${proposals.length} of 9 proposals name Paris; ${body.choices[0].message.content}`);
          assert.ok(proposals.length >= 5, run.agents.map(({ text }) => text).join("\n"));
        });
      }

      test("warming changes no prompt and no answer, and finds most of the aggregators' prompts", () => {
        const [off, on] = [runs.get("off"), runs.get("on")];
        assert.ok(off !== undefined && on !== undefined);
        for (const [at, agent] of on.agents.entries()) {
          assert.deepEqual(agent.prompt, off.agents[at]?.prompt, agent.id);
          assert.equal(agent.text, off.agents[at]?.text, agent.id);
        }
        for (const { agent, prompt_tokens, cached_tokens } of on.usage.agents.slice(9)) {
          assert.ok(cached_tokens! > 0.5 * prompt_tokens, `${agent}: ${cached_tokens} of ${prompt_tokens}`);
        }
      });
    });
  }

  test("a client that leaves leaves nothing running, in a model and in a tree", async () => {
    const { pid } = canopy;
    for (const model of ["plain", "fused-on"]) {
      let leave = () => {};
      const left = open("POST", `${canopy.url}/v1/chat/completions`, {
        model,
        messages: [{ role: "user", content: "Tell a long story." }],
        ...(model === "plain" ? { max_tokens: 4000, ignore_eos: true } : {}),
      }, (close) => leave = close).then(({ status }) => status, () => "left");
      await sleep(500);
      const busy = await cpuSeconds(pid);
      await sleep(500);
      assert.ok(await cpuSeconds(pid) - busy > 0.2, `${model} is not at work`);
      leave();
      assert.equal(await left, "left");
      await sleep(1000);
      const before = await cpuSeconds(pid);
      await sleep(1000);
      assert.ok(await cpuSeconds(pid) - before < 0.2, `${model} still works a second later`);
    }
  });
});

/** Answers on which the other exports agree more or less; the task is one that 4 bits do not spoil. */
describe("Other exports of the real model", { concurrency: false, skip }, () => {
  for (const layout of skip === false ? layouts : []) {
    test(`every ONNX file in the ${layout} layout is loaded and writes a function that sums`, async () => {
      const files = (await readdir(join(folders[layout], "onnx"))).filter((name) => name.endsWith(".onnx"));
      assert.ok(files.length >= 5, files.join(", "));
      for (const file of files) {
        const canopy = await startCanopy(JSON.stringify({
          models: { m: { model: folders[layout], engine: "onnx", onnx: { file: `onnx/${file}` } } },
        }));
        try {
          const answer = await send("POST", `${canopy.url}/v1/chat/completions`, {
            model: "m",
            messages: [{
              role: "user",
              content: "Write a Python function that returns the sum of a list of numbers.",
            }],
            temperature: 0,
            max_tokens: 64,
          });
          assert.equal(answer.status, 200, `${file}: ${answer.text}`);
          const { choices: [{ message }] }: Completion = JSON.parse(answer.text);
          assert.match(message.content, /def sum_list\w*\(/, file);
        } finally {
          await canopy.stop();
        }
      }
    });
  }
});
