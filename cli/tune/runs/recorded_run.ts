import { createHash } from "node:crypto";
import { z } from "zod";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";
import { answerExtractor } from "../../../scorer/answers/extract.ts";
import type { FinalAnswer } from "../../../scorer/answers/final_answer.ts";
import { voteGroups } from "../../../scorer/policy/run_consensus.ts";
import { unusable } from "../../../scorer/policy/unusable.ts";
import { invalidAnswers, linesOf, recordedAgentSchema } from "../../kit/answers/answer_file.ts";
import type { Io } from "../../kit/io.ts";

/** The record of a run, as `GET /v1/runs/ID` gives it; `label`: the right answer, where a user has added it. */
const recordSchema = z.looseObject({
  object: z.literal("run"),
  id: z.string(),
  state: z.string(),
  label: z.union([z.string(), z.number()]).transform(String).optional(),
  question: z.string().optional(),
  agents: z.array(recordedAgentSchema).min(2),
  usage: z.looseObject({
    agents: z.array(z.looseObject({ agent: z.string(), completion_tokens: z.number() })).default([]),
  }).optional(),
});

type RunLine = z.infer<typeof recordSchema>;

/** A final answer of a recorded agent. */
export interface RecordedVote {
  readonly model: string;
  readonly answer: FinalAnswer;
  /** End of its text, in ms from the run's start. */
  readonly atMs: number;
}

/** A run that went on to its end. */
export interface RecordedRun {
  /** In the order of their ends. */
  readonly votes: readonly RecordedVote[];
  /** Indices in `votes`, by equal answers. */
  readonly groups: readonly (readonly number[])[];
  /** Indices of the groups that answer as the whole run does; with a label, of those that are right. */
  readonly good: ReadonlySet<number>;
  /** True when the whole run was right, or nobody knows. */
  readonly wholeRight: boolean;
  /** Index of the right group, -1 when nobody was right; undefined without a label. */
  readonly right: number | undefined;
  /** Agents that read nobody. */
  readonly leaves: number;
  readonly wholeMs: number;
  readonly wholeTokens: number;
  /** Tokens that were written until a time, as far as the record tells. */
  tokensUntil(atMs: number): number;
}

/** The runs of a file. */
export interface RecordedRuns {
  readonly runs: readonly RecordedRun[];
  /** Runs that did not go on to their end, which show nothing of what ending them early changes. */
  readonly left: number;
  readonly labelled: boolean;
  /** SHA-256 of the file, in hex. */
  readonly sha256: string;
}

/** Reads records of runs, one a line. Throws `invalid_input` (400). */
export async function readRuns(file: string, io: Io): Promise<RecordedRuns> {
  const runs: RecordedRun[] = [];
  let left = 0;
  let labelled = true;
  const hash = createHash("sha256");
  for (const { line, number, value } of await linesOf(file, io)) {
    hash.update(`${line}\n`);
    const { data, success } = recordSchema.safeParse(value);
    if (!success) {
      throw invalidAnswers(
        file,
        number,
        "it is no record of a run: with --risk each line is one, as GET /v1/runs/ID gives it",
      );
    }
    const run = runOf(data);
    if (run === undefined) left++;
    else {
      runs.push(run);
      labelled &&= run.right !== undefined;
    }
  }
  return { runs, left, labelled: labelled && runs.length > 0, sha256: hash.digest("hex") };
}

/** Undefined for a run that has left out agents. */
function runOf({ agents, state, label, question = "", usage }: RunLine): RecordedRun | undefined {
  const root = agents.at(-1)!;
  const wholeMs = root.ended_at_ms ?? undefined;
  if (state !== "done" || wholeMs === undefined || agents.some((agent) => agent.state === "cancelled")) {
    return undefined;
  }
  const asked = question || questionOf(agents[0]!["prompt"]);
  const extract = answerExtractor(earlyExitSchema.parse({}).answer);
  const answerOf = ({ text, finish_reason }: RunLine["agents"][number]) =>
    unusable({ text, cut: finish_reason === "length" }) === undefined ? extract(text, asked) : undefined;
  const votes: RecordedVote[] = agents.slice(0, -1).flatMap((agent) => {
    const answer = agent.state === "done" ? answerOf(agent) : undefined;
    const atMs = agent.ended_at_ms ?? undefined;
    return answer === undefined || atMs === undefined ? [] : [{ model: agent.model, answer, atMs }];
  }).sort((a, b) => a.atMs - b.atMs);
  const groups = voteGroups(votes.map((vote, index) => ({ ...vote, index })));
  const equalTo = (expected: FinalAnswer | undefined) =>
    groups.findIndex(([first]) =>
      first !== undefined && expected !== undefined && equalAnswers(first.answer, expected)
    );
  const own = answerOf(root);
  const known = label === undefined ? undefined : extract(`The answer is ${label}.`, asked);
  const right = label === undefined ? undefined : equalTo(known);
  const reference = right ?? equalTo(own);
  const layers = agents.map(({ id }) => id.split(".")[0]);
  return {
    votes,
    groups: groups.map((group) => group.map(({ index }) => index)),
    good: new Set(reference < 0 ? [] : [reference]),
    wholeRight: label === undefined || (own !== undefined && known !== undefined && equalAnswers(own, known)),
    right,
    leaves: layers.filter((layer) => layer === layers[0]).length,
    wholeMs,
    ...tokensOf(agents, usage),
  };
}

function tokensOf(
  agents: RunLine["agents"],
  usage: RunLine["usage"],
): Pick<RecordedRun, "wholeTokens" | "tokensUntil"> {
  const written = new Map(usage?.agents.map((one) => [one.agent, one.completion_tokens]));
  const spans = agents.map((agent) => ({
    tokens: written.get(agent.id) ?? 0,
    fromMs: timeOf(agent["first_token_at_ms"]) ?? agent.ended_at_ms ?? 0,
    toMs: agent.ended_at_ms ?? 0,
  }));
  return {
    wholeTokens: spans.reduce((sum, { tokens }) => sum + tokens, 0),
    tokensUntil: (atMs) =>
      spans.reduce((sum, { tokens, fromMs, toMs }) => {
        if (atMs >= toMs) return sum + tokens;
        return atMs <= fromMs ? sum : sum + tokens * (atMs - fromMs) / (toMs - fromMs);
      }, 0),
  };
}

function timeOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

const promptSchema = z.looseObject({
  messages: z.array(z.looseObject({ role: z.string(), content: z.unknown() })),
});

/** The last message of a chat, which the first agents are asked; empty where the prompt is no chat. */
function questionOf(prompt: unknown): string {
  const { data } = promptSchema.safeParse(prompt);
  const last = data?.messages.findLast(({ role }) => role === "user")?.content;
  return typeof last === "string" ? last : "";
}
