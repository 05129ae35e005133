import { Random } from "../../base/random.ts";
import { runLoad } from "../../bench/load/load.ts";
import { loadReport } from "../../bench/report/load_report.ts";
import { defineCommand } from "../kit/command.ts";
import { exitCodeOf } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { askedEndpoint, endpointOptions } from "./asked_endpoint.ts";

const DEFAULTS = {
  requests: 100,
  concurrency: 8,
  openConcurrency: 10_000,
  inputTokens: 128,
  outputTokens: 128,
};

/** `canopy bench load`: load on a real endpoint. */
export const benchLoadCommand = defineCommand({
  name: "bench load",
  summary: "Send load to an OpenAI-compatible endpoint and measure it, in real time",
  maxArguments: 0,
  options: {
    ...endpointOptions,
    requests: {
      type: "number",
      value: "N",
      min: 1,
      help: `Requests to measure; ${DEFAULTS.requests} by default`,
    },
    "warm-up": {
      type: "number",
      value: "N",
      min: 0,
      help: "Requests before; as many as run at once by default",
    },
    concurrency: {
      type: "number",
      value: "N",
      min: 1,
      max: 100_000,
      help: `Requests at the same time; ${DEFAULTS.concurrency} by default, with --rate no limit`,
    },
    rate: {
      type: "number",
      value: "PER_SECOND",
      min: 0.001,
      fraction: true,
      help: "Start requests at random with this mean rate, whether others have ended or not",
    },
    "input-tokens": {
      type: "number",
      value: "N",
      min: 1,
      max: 1_000_000,
      help: `Random words of a prompt; ${DEFAULTS.inputTokens} by default`,
    },
    "output-tokens": {
      type: "number",
      value: "N",
      min: 1,
      help: `Longest answer; ${DEFAULTS.outputTokens} by default`,
    },
    "ignore-eos": {
      type: "flag",
      help: "Let engines write answers of exactly that length (not for OpenAI itself)",
    },
    ...REPORT_OPTIONS,
  },
  details: `The key for the endpoint is read from CANOPY_API_KEY. The exit code is 1 when a request failed.
Times are those of vLLM's "bench serve", and so are the names in the JSON file.

Examples:
  canopy bench load --model moa --requests 32 --concurrency 8
  canopy bench load --url http://127.0.0.1:30000 --rate 4 --requests 400 --json load.json --svg load.svg`,
  run: async (values, _, io) => {
    const { server, model, simulated, timeoutMs, seed } = await askedEndpoint(values, io);
    const concurrency = values.concurrency ??
      (values.rate === undefined ? DEFAULTS.concurrency : DEFAULTS.openConcurrency);
    const requests = values.requests ?? DEFAULTS.requests;
    const settings = {
      requests,
      warmUp: values["warm-up"] ?? Math.min(concurrency, DEFAULTS.concurrency, requests),
      concurrency,
      ratePerSecond: values.rate,
      inputTokens: values["input-tokens"] ?? DEFAULTS.inputTokens,
      outputTokens: values["output-tokens"] ?? DEFAULTS.outputTokens,
      ignoreEos: values["ignore-eos"],
    };
    const progress = new Progress(io);
    const everyTenth = Math.max(1, Math.ceil(requests / 10));
    const startedAt = new Date(io.clock.unixEpochMs + io.clock.now()).toISOString();
    const result = await runLoad({
      ...server,
      ...settings,
      transport: io.transport,
      clock: io.clock,
      model,
      timeoutMs,
      random: new Random(seed),
      signal: io.stop,
      onDone: (done) => {
        if (io.err.isTerminal || done % everyTenth === 0) progress.show(`${done} of ${requests} requests`);
      },
    }).finally(() => progress.end());
    const done = result.completed + result.failed;
    const origin = originOf(server.url, model, { ...settings, simulated, requests: done });
    const report = loadReport(
      result,
      result.stopped ? `${origin}; stopped, ${requests} were wanted` : origin,
      {
        date: startedAt,
        endpoint_type: "openai-chat",
        model_id: model,
        num_prompts: done,
        request_rate: settings.ratePerSecond ?? "inf",
        max_concurrency: concurrency,
        input_words: settings.inputTokens,
        max_tokens: settings.outputTokens,
        simulated,
        seed,
      },
    );
    await writeReport(report, values, io);
    if (result.stopped) return exitCodeOf(io.stop.reason);
    return result.failed === 0 ? 0 : 1;
  },
});

function originOf(
  url: string,
  model: string,
  { requests, concurrency, ratePerSecond, simulated }: {
    readonly requests: number;
    readonly concurrency: number;
    readonly ratePerSecond: number | undefined;
    readonly simulated: boolean;
  },
): string {
  const pace = ratePerSecond === undefined ? `${concurrency} at a time` : `${ratePerSecond} per second`;
  const what = simulated
    ? "Simulated engines, so that no figure says anything about GPUs; in real time"
    : "Measured in real time";
  return `${what}: ${requests} requests to ${model} at ${url}, ${pace}`;
}
