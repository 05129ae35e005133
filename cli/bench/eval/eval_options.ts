import type { OptionValues } from "../../kit/command.ts";
import { REPORT_OPTIONS } from "../../kit/report_output.ts";
import { DEFAULT_MAX_TOKENS } from "./ask_server.ts";
import { BASIS_OPTIONS } from "./eval_basis.ts";
import { PROTOCOL_OPTIONS } from "./eval_protocol.ts";
import { type ConfigChoice, TARGET_OPTIONS } from "./eval_targets.ts";
import { QUESTION_OPTIONS } from "../question_source.ts";

/** Values of options that are not given. */
export const EVAL_DEFAULTS = { timeoutSeconds: 3600, temperature: 0.7, width: 4 };

/** Options of `canopy bench eval`; those that say what is asked are the members of an experiment file, too. */
export const EVAL_OPTIONS = {
  experiment: {
    type: "text",
    value: "FILE",
    help:
      "Take sets and options from this file (JSONC), or from a shipped experiment; options here go before them",
  },
  ...QUESTION_OPTIONS,
  ...TARGET_OPTIONS,
  ...PROTOCOL_OPTIONS,
  repeats: {
    type: "number",
    value: "N",
    min: 1,
    max: 1000,
    help: "Times that each question is asked; 1 by default",
  },
  concurrency: {
    type: "number",
    value: "N",
    min: 1,
    max: 10_000,
    help: "Questions at the same time; 1 by default, with --rate no limit",
  },
  rate: {
    type: "number",
    value: "PER_SECOND",
    min: 0.001,
    fraction: true,
    help: "Questions start at random with this mean rate, whether others have ended or not",
  },
  "warm-up": {
    type: "number",
    value: "N",
    min: 0,
    help: "Ask the first N questions before the others, and do not count them; 0 by default",
  },
  "max-tokens": {
    type: "number",
    value: "N",
    min: 1,
    help:
      `Longest answer; by default ${DEFAULT_MAX_TOKENS} with chat, and what the task sets with lm-eval, mostly 256`,
  },
  timeout: {
    type: "number",
    value: "SECONDS",
    min: 0.001,
    fraction: true,
    help: `Longest time for a request; ${EVAL_DEFAULTS.timeoutSeconds} by default`,
  },
  temperature: {
    type: "number",
    value: "N",
    min: 0,
    max: 2,
    fraction: true,
    help: `Of the answers that self-consistency and best-of-N draw; ${EVAL_DEFAULTS.temperature} by default`,
  },
  width: {
    type: "number",
    value: "N",
    min: 1,
    max: 1000,
    help: `Answers that these draw at the same time; ${EVAL_DEFAULTS.width} by default`,
  },
  shard: {
    type: "text",
    value: "I/N",
    help:
      "Ask only each Nth question, from the Ith one on; auto: as Slurm's array or a Kubernetes Job says; bench merge " +
      "puts the parts' records together",
  },
  records: {
    type: "text",
    value: "FILE",
    help: "Keep each answer in this file (JSONL), and do not ask again for what it has",
  },
  ...BASIS_OPTIONS,
  html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
  pages: {
    type: "text",
    value: "FOLDER",
    help:
      "Write a page for each question to this folder: its answers, and of graphs the tree, texts and decisions; the " +
      "page of --html links to them",
  },
  "lm-eval-output": {
    type: "text",
    value: "FOLDER",
    help: "Write results_*.json and samples_*.jsonl as lm-eval lays them out, in a folder for each mode",
  },
  ...REPORT_OPTIONS,
} as const;

/** Values of the command line's options. */
export type EvalFlags = OptionValues<typeof EVAL_OPTIONS>;

/** Values in effect: of an experiment file's configurations some may be written in it. */
export type EvalValues = Omit<EvalFlags, "config"> & { readonly config: readonly ConfigChoice[] };
