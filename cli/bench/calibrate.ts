import { Random } from "../../base/random.ts";
import { measureCost } from "../../bench/load/calibrate.ts";
import { decodeResiduals, fitCost, prefillResiduals } from "../../bench/load/fit_cost.ts";
import { calibrationReport } from "../../bench/report/calibration_report.ts";
import { costFileOf } from "../../simulator/engine/cost_file.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport, writeResult } from "../kit/report_output.ts";
import { version } from "../kit/version.ts";
import { askedEndpoint, endpointOptions } from "./asked_endpoint.ts";

const DEFAULTS = {
  promptTokens: 4096,
  streams: 16,
  answerTokens: 64,
  repeats: 3,
  /** What nobody measures from outside: room for KV, and its bytes (bf16, 36 layers of 8 heads). */
  kvTokens: 1_000_000,
  kvBytes: 147_456,
};

/** `canopy bench calibrate`: the simulator's cost model, fitted to a real endpoint. */
export const benchCalibrateCommand = defineCommand({
  name: "bench calibrate",
  summary: "Measure what prompts and answers take on an OpenAI-compatible endpoint, for the simulator",
  maxArguments: 0,
  options: {
    ...endpointOptions,
    out: { type: "text", value: "FILE", help: "Write the cost file here" },
    "max-prompt": {
      type: "number",
      value: "N",
      min: 64,
      max: 100_000,
      help: `Random words of the longest prompt; ${DEFAULTS.promptTokens} by default`,
    },
    streams: {
      type: "number",
      value: "N",
      min: 2,
      max: 1024,
      help: `Most answers at the same time; ${DEFAULTS.streams} by default`,
    },
    "answer-tokens": {
      type: "number",
      value: "N",
      min: 8,
      max: 8192,
      help: `Length of each answer; ${DEFAULTS.answerTokens} by default`,
    },
    repeats: {
      type: "number",
      value: "N",
      min: 1,
      max: 100,
      help: `Measurements of each kind, of which the median counts; ${DEFAULTS.repeats} by default`,
    },
    "kv-tokens": {
      type: "number",
      value: "N",
      min: 1,
      help: "Tokens that fit into the engine's cache, which is not measured; 1,000,000 by default",
    },
    "no-ignore-eos": { type: "flag", help: "Do not send ignore_eos, which OpenAI itself refuses" },
    html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
    ...REPORT_OPTIONS,
  },
  details:
    `The endpoint should be one engine, or one pair, that nobody else uses meanwhile. The key for it is read from
CANOPY_API_KEY. A first run of the same seed leaves its prompts in the engine's cache: take another seed for the next.

Examples:
  canopy bench calibrate --url http://127.0.0.1:8100 --out cost.json
  canopy sim --cost cost.json --model demo
  canopy bench replay runs.jsonl --cost cost.json`,
  run: async (values, _, io) => {
    if (values.out === undefined) throw new UsageError("Needs a file for the cost: --out cost.json");
    const { server, model, simulated, timeoutMs, seed } = await askedEndpoint(values, io);
    const settings = {
      maxPromptTokens: values["max-prompt"] ?? DEFAULTS.promptTokens,
      maxStreams: values.streams ?? DEFAULTS.streams,
      answerTokens: values["answer-tokens"] ?? DEFAULTS.answerTokens,
      repeats: values.repeats ?? DEFAULTS.repeats,
      ignoreEos: !values["no-ignore-eos"],
      seed,
    };
    const date = new Date(io.clock.unixEpochMs + io.clock.now()).toISOString();
    const progress = new Progress(io);
    const measured = await measureCost({
      ...server,
      ...settings,
      transport: io.transport,
      clock: io.clock,
      model,
      timeoutMs,
      random: new Random(settings.seed),
      signal: io.stop,
      onPart: (part) => progress.show(part),
    }).finally(() => progress.end());
    const cost = fitCost(measured.prefills, measured.decodes);
    const kvTokens = values["kv-tokens"] ?? DEFAULTS.kvTokens;
    const provenance = {
      canopy: version,
      url: server.url,
      model,
      date,
      simulated,
      settings,
      not_measured: ["kv_tokens", "kv_bytes_per_token", "step_ms", "sequence_ms"],
      prefill: prefillResiduals(cost, measured.prefills),
      decode: decodeResiduals(cost, measured.decodes),
    };
    const file = costFileOf({ ...cost, kvTokens, kvBytes: DEFAULTS.kvBytes }, provenance);
    writeResult(values.out, `${JSON.stringify(file, null, 2)}\n`, io);
    const what = simulated
      ? "Simulated engine, so that this is the cost of a simulation"
      : "Measured in real time";
    const report = calibrationReport(measured, cost, {
      origin: `${what}: ${model} at ${server.url}, ${date}`,
      notes: [
        "not measured: room for KV and its bytes (--kv-tokens), and the engine's overhead of a step, which cannot be " +
        "told from its kernels",
        "of several measurements the median; a step: between two pieces of text while all streams decode",
      ],
      settings: { ...settings, url: server.url, model, date, simulated },
    });
    return await writeReport(report, values, io);
  },
});
