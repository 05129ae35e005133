import { z } from "zod";

const count = z.int().min(0);
const moment = z.number().nullable().describe(
  "Since the start of the run, in ms; null where it has not come to it",
);
const state = z.enum(["running", "done", "failed", "cancelled"]);

const countFields = {
  calls: count.describe("Calls of engines"),
  prompt_tokens: count.describe("Of all calls together"),
  completion_tokens: count.describe("Written by all together"),
  cached_tokens: count.nullable().describe(
    "Of the prompts, found in the engines' caches; null where none has said so",
  ),
  reasoning_tokens: count.describe("Of the completion tokens"),
  wasted_tokens: count.describe("Written, and read by nobody"),
  warm_tokens: count.describe("Computed ahead; prompts find them in the cache"),
  cut_tokens: count.describe("Left out of answers that were too long for their reader"),
  spliced_tokens: count.describe(
    "Of prompts up to the end of the last answer in them, as far as the router spliced them",
  ),
  spliced_cached_tokens: count.nullable().describe("Of these, found in the cache when the whole prompt came"),
  spliced_cached_share: z.number().nullable().describe("Their quotient"),
  saved_tokens_estimate: count.describe("What those who were cut off are estimated to have lacked"),
  cost: z.number().optional().describe("In the currency of the prices, where all models have one"),
};

const breakdownSchema = z.strictObject({
  ...countFields,
  degraded: z.looseObject({}).optional().describe("Agents that have failed, and the run went on without"),
  spent: z.looseObject({}).optional().describe(
    "Of a run with a budget: what it has spent, and which limit ended it",
  ),
  agents: z.array(z.strictObject({ agent: z.string(), model: z.string(), ...countFields })).describe(
    "By agent",
  ),
  models: z.array(z.strictObject({ model: z.string(), ...countFields })).describe(
    "By model, as each has worked",
  ),
}).describe("Tokens and calls");

const summaryFields = {
  id: z.string().describe("As in the answer's x-canopy-run-id"),
  object: z.literal("run"),
  request_id: z.string().nullable().describe("Of the client's request"),
  graph: z.string(),
  effort: z.string().nullable().describe("The level of effort that was asked for"),
  state: state.describe("What it has come to"),
  created: z.int().describe("Start, in seconds of Unix time"),
  created_ms: z.int().describe("The same in ms"),
  duration_ms: z.number().nullable().describe("Null while it goes on"),
  error: z.strictObject({ message: z.string(), code: z.string() }).nullable().describe("What it failed with"),
  early_exits: count.describe("Clusters that have not waited for all their members"),
  usage: breakdownSchema,
};

/** A run in a list. */
const runSummarySchema = z.strictObject(summaryFields);

/** The answer of GET /v1/runs. */
export const runListSchema = z.strictObject({
  object: z.literal("list"),
  data: z.array(runSummarySchema),
  has_more: z.boolean().describe("There are more behind the last one: ask with `after`"),
}).meta({ id: "RunList" });

/** An event of a run's trace. */
export const runEventSchema = z.strictObject({
  at_ms: z.number().describe("Since the start of the run"),
  type: z.string().describe("What has happened, such as agent_placed"),
  agent: z.string().optional(),
  cluster: z.string().optional(),
  data: z.looseObject({}).optional().describe("What goes with it, such as the figures of a decision"),
}).meta({ id: "RunEvent" });

const agentSchema = z.strictObject({
  id: z.string().describe("Such as l1.c1.a1"),
  model: z.string().describe("The one that it asks"),
  state: z.enum(["waiting", "queued", "running", "done", "failed", "cancelled"]),
  sampling: z.strictObject({
    temperature: z.number().nullable().describe("Null: the engine's default"),
    seed: z.number().nullable().describe("Null: none"),
  }).nullable().describe("What decides whether its answer can come out the same again"),
  reads: z.array(z.string()).describe("Ids of those whose answers it reads"),
  worker: z.string().nullable().describe("Of its last attempt; of a pair, the decode half"),
  prompt: z.looseObject({ kind: z.enum(["tokens", "text", "chat"]) }).nullable().describe(
    "As it was sent: ids, text or messages; null before that, and without texts",
  ),
  text: z.string().describe("What it has written; empty without texts"),
  reasoning: z.string().describe("What its engine took out as reasoning"),
  logprobs: z.array(z.number().nullable()).optional().describe(
    "Of its tokens, where somebody asked for them and texts are kept; null: minus infinity",
  ),
  finish_reason: z.enum(["stop", "length", "tool_calls", "content_filter"]).nullable(),
  error: z.string().nullable().describe("Why it has no answer"),
  ended_for: z.string().nullable().describe("Why the router ended it, though its text is used"),
  started_at_ms: moment,
  first_token_at_ms: moment,
  ended_at_ms: moment,
  resumes: count.describe("How often its answer broke off and went on elsewhere"),
  restarts: count.describe("How often it was begun anew"),
  hedge: z.looseObject({}).nullable().describe("Its second attempt, where there was one"),
  fallback: z.looseObject({ model: z.string(), reason: z.string() }).optional().describe(
    "The model that stood in for its own",
  ),
  steps: z.array(z.looseObject({})).optional().describe(
    "Of an answer that was begun before its prompt was whole",
  ),
});

/** The answer of GET /v1/runs/ID. */
export const runSchema = z.strictObject({
  ...summaryFields,
  graph_hash: z.string().nullable().describe("Equal where agents, prompts and parameters were"),
  request: z.strictObject({ path: z.string(), body: z.looseObject({}) }).nullable().describe(
    "What was asked; null without texts, and of a request with a graph of its own",
  ),
  draw_seed: z.string().describe("Of what early exit has drawn"),
  exits: z.array(z.strictObject({
    cluster: z.string(),
    metric: z.string(),
    at_ms: z.number(),
    completions: count.describe("Members that had answered"),
    exit: z.boolean(),
    late: z.boolean().describe("Something that it needed was not there in time"),
    ms: z.number().describe("Time from the completion to the decision"),
  })).describe("Decisions on whom to wait for"),
  cuts: z.array(z.strictObject({
    agent: z.string(),
    cluster: z.string().describe("The one that was decided without it"),
    at_ms: z.number(),
    saved_tokens: z.number(),
  })).describe("Agents whose votes could not matter any more"),
  exit_audit: z.strictObject({
    found: z.enum(["same", "other"]).nullable(),
    off: z.boolean(),
    share: z.number().describe("Share of the exits that was audited at the run's end"),
    doubt: z.enum(["other_answer", "workload"]).nullable().describe("Why that was all of them"),
  }).nullable().describe("Where exits are audited: whether the whole run has answered the same"),
  rewrite: z.strictObject({
    given: z.enum(["rewrite", "text"]),
    reason: z.string().nullable(),
    agent: agentSchema,
  }).nullable().describe("How the answer that agents agree on was written up"),
  root_skipped: z.boolean().describe("The answer is one of the last cluster's: the root was not asked"),
  texts_kept: z.literal(false).optional().describe("The record is of a file without prompts and answers"),
  agents: z.array(agentSchema),
  events: z.array(runEventSchema).describe("The trace"),
}).meta({ id: "Run" });

/** The answer to a run's end by a client. */
export const endedRunSchema = z.strictObject({
  id: z.string(),
  object: z.literal("run"),
  state: state.describe("What it has come to"),
}).meta({ id: "EndedRun" });
