import { z } from "zod";
import { patternProblem } from "./safe_pattern.ts";

const share = z.number().min(0).max(1);

/** Kinds of final answers in a text, tried in this order. */
export const ANSWER_KINDS = ["pattern", "field", "boxed", "code", "choice", "number", "math"] as const;

/** Rules that find final answers in texts, and say when enough of them are equal. */
export const answerRulesSchema = z.strictObject({
  extract: z.array(z.enum(ANSWER_KINDS)).min(1).default([...ANSWER_KINDS]).describe(
    "Kinds of final answers to look for, in this order; the first that a text has is its answer",
  ),
  pattern: z.string().min(1).max(500).superRefine((pattern, context) => {
    const problem = patternProblem(pattern);
    if (problem !== undefined) context.addIssue({ code: "custom", message: `Pattern ${problem}` });
  }).optional().describe(
    "Regular expression (RE2); the first group of its last match, or all of that match, is the answer",
  ),
  field: z.string().min(1).max(200).optional().describe(
    "Field of a JSON answer, such as result or data.value; default: answer, final_answer or result",
  ),
  stop: z.enum(["majority", "posterior", "window"]).default("majority").describe(
    "majority: the members still at work cannot change it any more; posterior: it holds with probability `level` (Beta/Dirichlet); window: the last `window` answers are equal (ESC)",
  ),
  level: z.number().gt(0.5).lt(1).default(0.95).describe("Probability that `posterior` asks for"),
  window: z.int().min(2).default(2).describe("Equal answers in a row that `window` asks for"),
});

/** Rules for a whole run's final answers; one of `agree`, `share` and `posterior` decides. */
export const consensusSchema = z.strictObject({
  agree: z.int().min(2).optional().describe("Equal final answers that end the run"),
  share: z.number().gt(0).max(1).optional().describe(
    "Equal final answers that end the run, as a share of the agents that read nobody; at least 2",
  ),
  posterior: z.number().gt(0.5).lt(1).optional().describe(
    "Least probability that the leading answer is right, from `skills`",
  ),
  skills: z.record(z.string().min(1), z.number().gt(0).lt(1)).default({}).describe(
    "posterior: share of a model's answers that are right, by the model's key; 0.6 where none is given",
  ),
  coincidence: z.number().gt(0).lt(1).default(0.25).describe(
    "posterior: probability that two wrong answers are equal",
  ),
  difficulties: z.array(z.strictObject({
    share: z.number().gt(0).max(1).describe("Share of the questions that are of this kind"),
    skills: z.record(z.string().min(1), z.number().gt(0).lt(1)).describe(
      "Share of a model's answers to such questions that are right",
    ),
    coincidence: z.number().gt(0).lt(1).describe(
      "Probability that two wrong answers are equal",
    ),
  })).min(1).optional().describe(
    "posterior: kinds of questions, such as easy and hard ones, in place of `skills` and `coincidence`; as `canopy tune` learns them",
  ),
  audit: z.number().min(0).max(1).default(0).describe(
    "Share of the exits that are held back to see what the whole run answers, and all of them while there is a doubt; when too many differ, exits are switched off",
  ),
  most_wrong: z.number().gt(0).lt(1).default(0.05).describe(
    "audit: share of exits that may answer other than the whole run does",
  ),
  usual_votes: z.record(
    z.string().regex(/^(?:[1-9]\d{0,5}|never)$/, { error: "is neither a number of votes nor never" }),
    z.int().min(0),
  ).optional().describe(
    "audit: runs by the number of votes after which they agreed, or `never`; when runs in service differ, all exits are audited for a while. Written by `canopy tune`; without it the first runs say what is usual",
  ),
  tuned: z.record(z.string(), z.union([z.string(), z.number()])).optional().describe(
    "Where these rules come from; written by `canopy tune`",
  ),
  start: z.enum(["all", "staged"]).default("all").describe(
    "staged: agents that read nobody start by model, the smallest first; the next ones when these have answered without ending the run",
  ),
  stage_ms: z.number().positive().default(30_000).describe("staged: longest wait for the answers of a stage"),
  cut: z.enum(["never", "decided"]).default("never").describe(
    "decided: members of a cluster are ended when its most frequent answer cannot change by theirs, and the run cannot end by `agree` or `share` any more",
  ),
  undecided: z.enum(["root", "leader"]).default("root").describe(
    "When all agents that read nobody have answered and the rule has not ended the run: root, it goes on; leader, it ends with the answer that leads, where at least two agree",
  ),
  undecided_level: z.number().min(0).max(1).default(0.6).describe(
    "undecided leader by `posterior`: least probability of that answer; below it the run goes on",
  ),
  best: z.enum(["largest", "confident", "first"]).default("largest").describe(
    "Whose text is the run's answer among those that agree: the largest model's, the most confident one, the first",
  ),
  finish: z.enum(["text", "rewrite"]).default("text").describe(
    "What the run answers with: text, the text of one that agrees (`best`); rewrite, what a small model writes up from the texts of all that agree",
  ),
  rewrite: z.strictObject({
    model: z.string().min(1).optional().describe("A key of `models`; default: the smallest one of the graph"),
    prompt: z.string().min(1).default("rewrite").describe("Name of its prompt, with [responses]"),
    max_tokens: z.int().positive().optional().describe(
      "Longest text that it writes; the client's limit holds beside it",
    ),
    deadline_ms: z.number().positive().default(30_000).describe(
      "Longest time for writing up; after it the text of one that agrees is given",
    ),
  }).prefault({}).describe("finish rewrite: who writes up, and from which prompt"),
  while_written: z.boolean().default(true).describe(
    "An answer counts as soon as it is announced in the stream, not only at its text's end",
  ),
}).refine(
  ({ agree, share, posterior }) => [agree, share, posterior].filter((rule) => rule !== undefined).length <= 1,
  {
    error: "has several rules: give one of agree, share and posterior",
  },
);

/** Settings of early exit: for a graph, a layer or a cluster. */
export const earlyExitSchema = z.strictObject({
  scope: z.enum(["cluster", "run"]).default("cluster").describe(
    "cluster: each cluster may end early. run: the final answers of all agents are counted as they become known, and " +
      "when enough agree everything else is ended and the run answers; for a graph, and by `answer` and `consensus` only",
  ),
  consensus: consensusSchema.prefault({}).describe(
    "scope run: when enough agree; by default 4 of 9 agents that read nobody",
  ),
  metric: z.enum(["none", "q", "answer", "verdict", "agreement", "random"]).default("none").describe(
    "What decides that a cluster need not wait for its other members",
  ),
  min_agents: z.int().min(1).optional().describe(
    "Answers that are there before anything is decided; default: 2, and 1 with paper_literal",
  ),
  never_skip: z.array(z.string().min(1)).default([]).describe(
    "Agents, or models, that are always waited for",
  ),
  deadline_ms: z.number().positive().default(300).describe(
    "Longest time for one decision; after it the cluster just waits for its members",
  ),
  keep: z.enum(["all", "majority"]).default("majority").describe(
    "Whose answers go on when a cluster exits: of all that have answered, or of the largest group that agrees",
  ),
  skip_root: share.optional().describe(
    "Share of the last cluster's answers that must agree for its best one to be returned without asking the root; unset: the root is always asked",
  ),
  diversity_guard: z.boolean().default(true).describe(
    "No exit where the prompt asks for something creative: there different answers are wanted",
  ),
  similarity: z.enum(["fcs", "fcs_u", "cosine"]).optional().describe(
    "How two texts are compared; default: fcs (the paper's) for q, fcs_u for the others",
  ),
  tau: share.default(0.7).describe("q: the similarity at which an exit is likeliest"),
  gamma: share.default(0.5).describe("q: weight of confidence against similarity"),
  decide: z.enum(["sample", "threshold"]).default("sample").describe(
    "q: exit with probability Q, or when Q is at least `threshold`",
  ),
  threshold: share.default(0.8).describe("q with decide = threshold: least Q of an exit"),
  paper_literal: z.boolean().default(false).describe(
    "q: the algorithm as printed: self-pairs count, gamma is 0.5, decided from the first answer on",
  ),
  confidence: z.enum(["geometric", "tail", "lowest_window"]).default("geometric").describe(
    "Of an answer's token probabilities: the mean over all, over the last tokens, or the lowest of all windows",
  ),
  confidence_tokens: z.int().min(1).default(256).describe("Tokens of the tail, or of a window"),
  without_logprobs: z.enum(["wait", "ignore"]).default("wait").describe(
    "q, where an engine gives no log-probabilities: never exit, or decide by similarity alone",
  ),
  answer: answerRulesSchema.prefault({}).describe(
    "answer, agreement: final answers; its stop rule is also that of verdict",
  ),
  verdict: z.strictObject({
    model: z.string().min(1).optional().describe("A key of `models`; default: the smallest one"),
    swap: z.boolean().default(false).describe(
      "Ask a second time with the two answers swapped; both must agree",
    ),
    threshold: share.default(0.5).describe("Least probability of yes"),
    deadline_ms: z.number().positive().default(3_000).describe("Longest time for one verdict"),
    max_tokens: z.int().min(16).default(2_048).describe("Tokens of each answer that are shown, from its end"),
  }).prefault({}).describe("verdict, agreement: a one-token yes or no of a served model"),
  veto_below: share.default(0.1).describe(
    "agreement: answers less similar than this are off topic, and there is no exit",
  ),
  probability: share.default(0.5).describe("random: probability of an exit at each decision"),
}).describe("Early exit");

/** A checked early exit, with all defaults filled in. */
export type EarlyExitConfig = z.infer<typeof earlyExitSchema>;
export type ConsensusRules = z.infer<typeof consensusSchema>;
export type AnswerRules = z.infer<typeof answerRulesSchema>;
export type AnswerKind = (typeof ANSWER_KINDS)[number];

/** Every cluster waits for all its members. */
export const noEarlyExit: EarlyExitConfig = earlyExitSchema.parse({});

/** Settings with which a run's answers are counted, and never end it. */
export const countingOnly: EarlyExitConfig = earlyExitSchema.parse({
  scope: "run",
  consensus: { agree: Number.MAX_SAFE_INTEGER },
});

/** Answers that are there before anything is decided: two, or one where the paper's algorithm is followed to the letter. */
export function leastAnswers({ metric, min_agents, paper_literal }: EarlyExitConfig): number {
  return min_agents ?? (metric === "q" && paper_literal ? 1 : 2);
}

/** What `reasoning_effort` may ask of a virtual model, from the least work to the most. */
export const EFFORTS = ["low", "medium", "high"] as const;

export type Effort = (typeof EFFORTS)[number];

const effortLevelSchema = z.strictObject({
  graph: z.string().min(1).optional().describe(
    "Another graph that answers at this level, such as one with fewer layers",
  ),
  early_exit: earlyExitSchema.optional().describe(
    "This graph, with these settings in place of its own `early_exit`",
  ),
}).refine(({ graph, early_exit }) => graph === undefined || early_exit === undefined, {
  error: "has both graph and early_exit: give one of them",
});

/** What the levels of `reasoning_effort` are in a graph. */
export const effortSchema = z.union([
  z.literal("root"),
  z.strictObject({
    low: effortLevelSchema.optional().describe(
      "Default: the run also ends when a third of the agents that read nobody agree",
    ),
    medium: effortLevelSchema.optional().describe("Default: the graph as it is"),
    high: effortLevelSchema.optional().describe("Default: the whole graph, without any early exit"),
  }),
], { error: 'must be an object with low, medium and high, or "root"' }).prefault({});

/** Settings by which a run with little effort ends, from those that its graph has. */
export function lowEffort(own: EarlyExitConfig): EarlyExitConfig {
  // What has no effect in the graph has none here.
  const written = own.scope === "run" ? own.consensus : noEarlyExit.consensus;
  const { agree: _agree, share: _share, posterior: _posterior, ...others } = written;
  const { tuned: _tuned, usual_votes: _votes, ...consensus } = others;
  return { ...own, scope: "run", metric: "none", consensus: { ...consensus, share: 1 / 3 } };
}
