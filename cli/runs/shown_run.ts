import { z } from "zod";
import { CanopyError } from "../../base/errors.ts";
import type { Json } from "../../base/json.ts";

const count = z.number().nullish().transform((value) => value ?? 0);
const moment = z.number().nullish().transform((value) => value ?? undefined);

const countsSchema = z.looseObject({
  calls: count,
  prompt_tokens: count,
  completion_tokens: count,
  cached_tokens: count,
  wasted_tokens: count,
});

const summarySchema = z.looseObject({
  id: z.string(),
  graph: z.string(),
  state: z.string(),
  created: z.number(),
  duration_ms: moment,
  error: z.looseObject({ message: z.string() }).nullish(),
  usage: countsSchema.extend({
    agents: z.array(countsSchema.extend({ agent: z.string() })).default([]),
    degraded: z.unknown().optional(),
    cost: z.number().optional(),
  }),
});

const runSchema = summarySchema.extend({
  agents: z.array(z.looseObject({
    id: z.string(),
    model: z.string(),
    state: z.string(),
    /** Null for what its engine chooses. */
    sampling: z.looseObject({ temperature: z.number().nullable(), seed: z.unknown() }).nullish(),
    reads: z.array(z.string()).default([]),
    text: z.string().default(""),
    error: z.string().nullish(),
    worker: z.string().nullish(),
    finish_reason: z.string().nullish(),
    started_at_ms: moment,
    first_token_at_ms: moment,
    ended_at_ms: moment,
    fallback: z.looseObject({ model: z.string(), reason: z.string() }).nullish(),
    hedge: z.looseObject({
      worker: z.string(),
      started_at_ms: z.number(),
      ended_at_ms: moment,
      outcome: z.string().nullish(),
    }).nullish(),
  })).min(1),
  exits: z.array(z.looseObject({
    cluster: z.string(),
    metric: z.string(),
    at_ms: z.number(),
    completions: z.number(),
    exit: z.boolean(),
    late: z.boolean().default(false),
  })).default([]),
  graph_hash: z.string().nullish(),
  root_skipped: z.boolean().default(false),
  /** False where the record on disk has no prompts and answers. */
  texts_kept: z.boolean().default(true),
  events: z.array(z.looseObject({
    at_ms: z.number(),
    type: z.string(),
    agent: z.string().optional(),
    cluster: z.string().optional(),
    data: z.record(z.string(), z.json()).optional(),
  })).default([]),
});

/** A run in the list of `GET /v1/runs`. */
export type RunSummary = z.infer<typeof summarySchema>;

/** A run as `GET /v1/runs/ID` gives it; times in ms since its start. */
export type ShownRun = z.infer<typeof runSchema>;

const listSchema = z.object({ data: z.array(summarySchema), has_more: z.boolean().default(false) });

/** A part of the list of runs, and whether there is more behind it. Throws for what is no such list. */
export function readRunList(body: Json): z.infer<typeof listSchema> {
  const list = listSchema.safeParse(body);
  if (!list.success) throw unreadable("a list of runs");
  return list.data;
}

/** One run. Throws for what is none. */
export function readShownRun(body: Json): ShownRun {
  const run = runSchema.safeParse(body);
  if (!run.success) throw unreadable("a run");
  return run.data;
}

function unreadable(what: string): CanopyError {
  return new CanopyError(`The server does not answer with ${what} as this version of Canopy knows it`, {
    code: "bad_response",
    status: 502,
  });
}
