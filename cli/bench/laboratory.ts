import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import process from "node:process";
import { fnv1a } from "../../base/random.ts";

import { laboratoryQuestions } from "../../bench/datasets/laboratory/laboratory_questions.ts";
import type { LaboratoryPart } from "../../bench/laboratory/conditions.ts";
import { measureLaboratory } from "../../bench/laboratory/experiment.ts";
import { LABORATORY_SIZES, laboratoryConfig, singleGraph } from "../../bench/laboratory/laboratory_graphs.ts";
import { readRows, RowStore } from "../../bench/laboratory/row_store.ts";
import { laboratoryReport } from "../../bench/report/laboratory_report.ts";
import type { Report } from "../../bench/report/report.ts";
import { UsageError } from "../kit/args.ts";
import { listModels, serverUrl } from "../kit/client.ts";
import { defineCommand, type OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { startRouter } from "../kit/router/local_router.ts";
import { makeScorer } from "../kit/router/make_early_exit.ts";

/** Questions by default: some minutes on two cores, and enough for a look; differences of some per cent take hundreds. */
const DEFAULT_QUESTIONS = 20;
const PARTS = ["singles", "modes", "samples", "staircase", "exits", "predictors"] as const;
/** A cache so small that a way to answer finds nothing of the one before it. */
const CACHE_BYTES = 16 * 1024 * 1024;

const options = {
  questions: {
    type: "number",
    value: "N",
    min: 1,
    max: 100_000,
    help: `Questions of the test set; ${DEFAULT_QUESTIONS} by default`,
  },
  part: {
    type: "list",
    value: "NAME",
    choices: PARTS,
    help: `Measure only this; all by default: ${PARTS.join(", ")}`,
  },
  concurrency: {
    type: "number",
    value: "N",
    min: 1,
    max: 1_000,
    help: "Questions at the same time; 1 by default, as latencies want it",
  },
  seed: {
    type: "text",
    value: "TEXT",
    help: "Of the questions' draw and the agents' seeds; canopy by default",
  },
  url: {
    type: "list",
    value: "MODEL=URL",
    help: "Server of laboratory/s, m or l instead of the model in this process; give all three",
  },
  engine: {
    type: "text",
    value: "NAME",
    choices: ["vllm", "sglang"],
    help: "Engine of these servers; vllm by default",
  },
  resume: {
    type: "text",
    value: "FILE",
    help: "Keep each answer in this file, and do not ask again for what it has",
  },
  "same-as": {
    type: "text",
    value: "FILE",
    help: "Compare answers with a file that --resume kept of another engine",
  },
  html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
  ...REPORT_OPTIONS,
} as const;

/** `canopy bench laboratory`: the whole method on the models that come with Canopy. */
export const benchLaboratoryCommand = defineCommand({
  name: "bench laboratory",
  summary:
    "Right answers, latency and tokens of all modes, votes and exits on real small models; not simulated",
  maxArguments: 0,
  options,
  details: `The small models that come with Canopy answer questions of their test set: each alone,
the largest one in votes (self-consistency), modes #1 to #3, and #4 by every metric beside chance.

Examples:
  canopy bench laboratory
  canopy bench laboratory --questions 500 --resume rows.jsonl --html report.html --json report.json
  canopy bench laboratory --url s=http://127.0.0.1:8001 --url m=http://127.0.0.1:8002 --url l=http://127.0.0.1:8003`,
  run: async (values, _, io) => {
    const servers = await serversOf(values, io);
    return await writeReport(await measured(values, servers, io), values, io);
  },
});

type Values = OptionValues<typeof options>;

async function measured(values: Values, servers: Servers, io: Io): Promise<Report> {
  const seedText = values.seed ?? "canopy";
  const seed = fnv1a(seedText) % 1_000_000;
  const count = values.questions ?? DEFAULT_QUESTIONS;
  const concurrency = values.concurrency ?? 1;
  const settings = { questions: count, seed: seedText, concurrency, ...servers.settings };
  const pathOf = (path: string) => resolve(io.cwd, path);
  const { resume, "same-as": sameAs } = values;
  const elsewhere = sameAs === undefined ? undefined : readRows(pathOf(sameAs));
  // More questions of the same draw go on with the file of fewer.
  const store = new RowStore(resume && pathOf(resume), JSON.stringify({ ...settings, questions: undefined }));
  const configOf = (graphs: Readonly<Record<string, unknown>>) =>
    laboratoryConfig(graphs, {
      server: { host: "127.0.0.1", port: 0, log_level: "error" },
      models: servers.models,
      cacheBytes: CACHE_BYTES,
    });
  const first = configOf({ first: singleGraph(LABORATORY_SIZES[0]!) });
  const { router } = await startRouter(first, io, first.server);
  const scorer = await makeScorer(first.scorer, io);
  const progress = new Progress(io);
  try {
    await router.ready();
    const result = await measureLaboratory({
      router,
      serve: (graphs) => router.reconfigure(configOf(graphs)),
      scorer,
      clock: io.clock,
      questions: laboratoryQuestions({ split: "test", count, seed: seedText }),
      parts: new Set<LaboratoryPart>(
        values.part.length === 0 ? PARTS : PARTS.filter((one) => values.part.includes(one)),
      ),
      seed,
      concurrency,
      store,
      signal: io.stop,
      onPart: (part) => progress.show(part),
    });
    return laboratoryReport(result, {
      origin: originOf(settings, servers),
      settings,
      seed: seedText,
      elsewhere,
    });
  } finally {
    progress.end();
    await scorer.close();
    await router.close();
  }
}

/** The models' servers; without `models` they run in this process. */
interface Servers {
  readonly models: Readonly<Record<string, unknown>> | undefined;
  readonly settings: { readonly engine: string; readonly servers: readonly string[] };
}

async function serversOf({ url: urls, engine }: Values, io: Io): Promise<Servers> {
  if (urls.length === 0) {
    if (engine !== undefined) {
      throw new UsageError("Option --engine needs --url: it names the engine of servers");
    }
    return { models: undefined, settings: { engine: "onnx", servers: [] } };
  }
  const named = urls.map((text) => {
    const at = text.indexOf("=");
    return { name: text.slice(0, Math.max(0, at)), url: serverUrl(text.slice(at + 1)) };
  });
  const missing = LABORATORY_SIZES.filter((size) => !named.some(({ name }) => name === size));
  const unknown = named.find(({ name }) => !LABORATORY_SIZES.includes(name));
  if (missing.length > 0 || unknown !== undefined) {
    throw new UsageError(
      `Option --url must name a server for each of ${
        LABORATORY_SIZES.join(", ")
      }, such as s=http://127.0.0.1:8001: ` +
        (unknown === undefined ? `${missing.join(", ")} is missing` : `current value is "${unknown.name}=…"`),
    );
  }
  const models = await Promise.all(named.map(async ({ name, url }) => {
    const [model = `laboratory/${name}`] = await listModels(
      io.transport,
      { url, apiKey: undefined },
      io.stop,
    );
    return [name, {
      model,
      engine: engine ?? "vllm",
      workers: [url],
      tokenizer: `laboratory/${name}`,
    }] as const;
  }));
  return {
    models: Object.fromEntries(models),
    settings: { engine: engine ?? "vllm", servers: named.map(({ name, url }) => `${name}=${url}`) },
  };
}

function originOf(
  { questions, seed, concurrency }: { questions: number; seed: string; concurrency: number },
  { models, settings: { engine, servers } }: Servers,
): string {
  const where = models === undefined
    ? "in this process (ONNX Runtime, float32)"
    : `on ${engine} (${servers.join(", ")}), whose prefix caches are kept between ways`;
  const at = concurrency === 1 ? "one at a time" : `${concurrency} at a time`;
  return `Measured, not simulated: laboratory/s, m and l ${where}; ${questions} questions of the test set, ${at}; ` +
    `seed ${seed}; ${process.platform} ${process.arch}, ${availableParallelism()} cores`;
}
