import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { fieldError } from "../../../router/http/gate/fields.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import { withoutMark } from "../../../cfgs/load/without_mark.ts";
import type { Io } from "../io.ts";

/** Log-probabilities of an answer's tokens: engines' -inf is no JSON, and is written as null. */
const logprobsSchema = z.array(z.number().nullable().transform((logprob) => logprob ?? -Infinity)).nullish();

/** One answer of a file: a line of JSON. Fields that are not known are left alone. */
const answerSchema = z.looseObject({
  group: z.string().optional(),
  cluster: z.string().optional(),
  id: z.union([z.string(), z.number()]).transform(String).optional(),
  model: z.string().optional(),
  question: z.string().optional(),
  text: z.string(),
  logprobs: logprobsSchema,
  cut: z.boolean().optional(),
  ms: z.number().nonnegative().optional(),
  label: z.union([z.string(), z.number(), z.boolean()]).transform(String).optional(),
  correct: z.boolean().optional(),
  verdicts: z.record(z.string(), z.number()).optional(),
});

/** An agent of a recorded run. */
export const recordedAgentSchema = z.looseObject({
  id: z.string(),
  model: z.string(),
  state: z.string(),
  text: z.string(),
  logprobs: logprobsSchema,
  finish_reason: z.string().nullish(),
  ended_at_ms: z.number().nullish(),
});

/** The record of a run, as `GET /v1/runs/ID` gives it. */
const runSchema = z.looseObject({
  object: z.literal("run"),
  id: z.string(),
  agents: z.array(recordedAgentSchema),
});

/** A record that was written to disk without prompts and answers. */
const recordWithoutTexts = z.looseObject({ object: z.literal("run"), texts_kept: z.literal(false) });

/** An answer to compare. */
export interface ScoredAnswer {
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly logprobs: readonly number[] | undefined;
  readonly cut: boolean;
  /** Time from the group's start to its end, in ms; undefined where the file does not say. */
  readonly ms: number | undefined;
  /** Label of the answer: those with equal labels agree. */
  readonly label: string | undefined;
  readonly correct: boolean | undefined;
  /** Probabilities that it agrees with others of its group, by their ids, as a model has judged. */
  readonly verdicts: ReadonlyMap<string, number>;
}

/** Answers to one question, in the order in which they were complete. */
export interface AnswerGroup {
  readonly id: string;
  readonly question: string;
  readonly answers: readonly ScoredAnswer[];
}

/** Reads answers and records of runs, one JSON a line, from a file or (`-`) from what is piped in. Throws `invalid_input`. */
export async function readAnswers(file: string, io: Io): Promise<AnswerGroup[]> {
  const groups = new Map<string, { question: string; answers: ScoredAnswer[] }>();
  const groupOf = (id: string) => {
    const group = groups.get(id) ?? { question: "", answers: [] };
    groups.set(id, group);
    return group;
  };
  for (const { value, number } of await linesOf(file, io)) {
    const run = runSchema.safeParse(value);
    if (run.success) {
      for (const { id, answers } of clustersOf(run.data)) groupOf(id).answers.push(...answers);
      continue;
    }
    const parsed = answerSchema.safeParse(value);
    if (!parsed.success) {
      throw invalidAnswers(file, number, fieldError(parsed.error, value, "the line").message);
    }
    const { data } = parsed;
    const group = groupOf(data.group ?? data.cluster ?? "1");
    group.question ||= data.question ?? "";
    group.answers.push(answerOf(data, `${group.answers.length + 1}`));
  }
  if (groups.size === 0) {
    throw invalidAnswers(file, 1, "there is no answer: each line is an object with a text");
  }
  return [...groups].map(([id, { question, answers }]) => ({ id, question, answers: inOrder(answers) }));
}

function answerOf(data: z.infer<typeof answerSchema>, place: string): ScoredAnswer {
  return {
    id: data.id ?? place,
    model: data.model ?? "",
    text: data.text,
    logprobs: data.logprobs ?? undefined,
    cut: data.cut ?? false,
    ms: data.ms,
    label: data.label,
    correct: data.correct,
    verdicts: new Map(Object.entries(data.verdicts ?? {})),
  };
}

/** Clusters of a recorded run, but the root: agents are named `l<layer>.c<cluster>.a<n>`. */
function clustersOf({ id, agents }: z.infer<typeof runSchema>): { id: string; answers: ScoredAnswer[] }[] {
  const clusters = new Map<string, ScoredAnswer[]>();
  for (const agent of agents) {
    const cluster = /^(.+)\.a\d+$/.exec(agent.id)?.[1];
    if (cluster === undefined || agent.state !== "done") continue;
    const answers = clusters.get(cluster) ?? [];
    clusters.set(cluster, answers);
    answers.push({
      id: agent.id,
      model: agent.model,
      text: agent.text,
      logprobs: agent.logprobs ?? undefined,
      cut: agent.finish_reason === "length",
      ms: agent.ended_at_ms ?? undefined,
      label: undefined,
      correct: undefined,
      verdicts: new Map(),
    });
  }
  return [...clusters].filter(([, answers]) => answers.length > 1)
    .map(([cluster, answers]) => ({ id: `${id}/${cluster}`, answers }));
}

function inOrder(answers: readonly ScoredAnswer[]): ScoredAnswer[] {
  return answers.every(({ ms }) => ms !== undefined)
    ? [...answers].sort((a, b) => (a.ms ?? 0) - (b.ms ?? 0))
    : [...answers];
}

/** A line of a file of JSON lines. */
export interface JsonLine {
  readonly line: string;
  /** From 1. */
  readonly number: number;
  readonly value: unknown;
}

/** The lines of a file, or (`-`) of what is piped in, that are not empty. Throws `invalid_input`. */
export async function linesOf(file: string, io: Io): Promise<JsonLine[]> {
  const lines = await jsonLinesOf(file, io, "answers");
  for (const { number, value } of lines) {
    if (!recordWithoutTexts.safeParse(value).success) continue;
    throw invalidAnswers(
      file,
      number,
      "the record of the run has no answers: set server.records.texts to true before runs that are to be judged",
    );
  }
  return lines;
}

/** The same of a file of `what`, whose records of runs may be without texts. */
export async function jsonLinesOf(file: string, io: Io, what: LinesOf): Promise<JsonLine[]> {
  return (await contentOf(file, io, what)).split("\n").flatMap((line, index): JsonLine[] =>
    line.trim() === ""
      ? []
      : [{ line, number: index + 1, value: jsonOf(line, { file, number: index + 1, what }) }]
  );
}

async function contentOf(file: string, io: Io, what: LinesOf): Promise<string> {
  if (file === "-") return withoutMark(await io.readInput());
  const path = resolve(io.cwd, file);
  if (!existsSync(path)) throw invalidLines({ file, what }, "there is no such file");
  try {
    return withoutMark(readFileSync(path, "utf8"));
  } catch (cause) {
    throw invalidLines({ file, what }, messageOf(cause));
  }
}

function jsonOf(line: string, place: LinePlace): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw invalidLines(place, messageOf(cause));
  }
}

/** Contents of a file of JSON lines. */
type LinesOf = "answers" | "runs";

/** A file, or a line of it, from 1. */
interface LinePlace {
  readonly file: string;
  readonly number?: number | undefined;
  readonly what: LinesOf;
}

/** The error of a file of answers: `problem` is a sentence without its point. */
export function invalidAnswers(file: string, line: number | undefined, problem: string): CanopyError {
  return invalidLines({ file, number: line, what: "answers" }, problem);
}

/** The error of a file of JSON lines: `problem` is a sentence without its point. */
export function invalidLines({ file, number, what }: LinePlace, problem: string): CanopyError {
  const where = number === undefined ? file : `${file}, line ${number}`;
  return new CanopyError(`Cannot read ${what} from ${where}: ${problem}`, {
    code: "invalid_input",
    status: 400,
  });
}
