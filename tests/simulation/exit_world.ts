import type { VirtualClock } from "../../base/clock.ts";
import { fnv1a, Random } from "../../base/random.ts";
import { type IncomingResponse, type OutgoingRequest, TransportError } from "../../base/transport.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import type { EarlyExitServices } from "../../router/moa/exit/exit_policies.ts";
import type { MemoryHandler } from "../../router/transport/memory.ts";
import { exitPolicyOf } from "../../scorer/exit_policy_of.ts";
import type { ClusterState, Evidence, ExitDecision, ExitPolicy } from "../../scorer/policy/exit_policy.ts";
import { verdictPrompt } from "../../scorer/policy/verdict_prompt.ts";
import type { Similarity } from "../../scorer/scorer.ts";
import { FakeScorer, verdictQuestion } from "../router/moa/fake_scorer.ts";
import { ExitAudit } from "../../scorer/audit/exit_audit.ts";
import { runConsensusOf } from "../../scorer/exit_policy_of.ts";

/** What may be wrong with what early exit depends on. */
export const exitFaults = [
  "none",
  "slow",
  "dead",
  "throws",
  "rejects",
  "deaf",
  "shapes",
  "nan",
  "no_logprobs",
  "zero_probability",
  "judge_fails",
  "judge_hangs",
  "judge_babbles",
  "all",
] as const;

export type ExitFault = (typeof exitFaults)[number];

/** What a policy was asked, what it said, and what it would have said if everything worked. */
export interface AskedPolicy {
  readonly state: ClusterState;
  readonly decision: ExitDecision;
  readonly truth: ExitDecision;
}

/** Similarity of two answers, a number that their texts decide. */
export function similarityOf(a: string, b: string): number {
  return (fnv1a([a, b].sort().join("\0")) % 1000) / 1000;
}

/** Whether a judge agrees, which the prompt decides. */
function agrees(prompt: string): boolean {
  return fnv1a(prompt) % 10 < 7;
}

const [sure, unsure] = [-0.05, -4];

/** A scorer, policies and a judging model of which some fail, and a log of what was decided. */
export class ExitWorld {
  readonly scorer = new FakeScorer();
  readonly asked: AskedPolicy[] = [];
  /** Verdicts that were answered in place of the engines. */
  verdicts = 0;
  readonly #fault: ExitFault;
  readonly #random: Random;

  constructor(seed: string, fault: ExitFault) {
    this.#fault = fault;
    this.#random = new Random(`${seed}/faults`);
  }

  services(clock: VirtualClock): EarlyExitServices {
    const { scorer } = this;
    scorer.compare = (a, b) => this.#compare(clock, a, b);
    if (this.#has("throws")) {
      const [open, similarity] = [scorer.open.bind(scorer), scorer.similarity.bind(scorer)];
      const broken = new Error("The scorer is broken");
      scorer.open = (id) => {
        if (this.#random.int(2) === 0) throw broken;
        return open(id);
      };
      scorer.similarity = (...of) => {
        if (this.#random.int(2) === 0) throw broken;
        return similarity(...of);
      };
    }
    if (this.#has("deaf")) {
      const open = scorer.open.bind(scorer);
      const fail = () => {
        throw new Error("The feed is broken");
      };
      scorer.open = (id) => {
        const feed = open(id);
        return this.#random.int(2) === 0 ? { append: fail, end: fail, close: feed.close } : feed;
      };
    }
    return {
      scorer,
      verdict: verdictQuestion,
      policyOf: (settings) => this.#policy(settings),
      consensusOf: runConsensusOf,
      auditOf: (settings) => new ExitAudit(settings),
    };
  }

  /** A judging model that answers as the prompt decides, or fails. */
  intercept(request: OutgoingRequest, clock: VirtualClock): MemoryHandler | undefined {
    const prompt = verdictOf(request);
    if (prompt === undefined) return undefined;
    return async (_, signal) => {
      await clock.sleep(20, signal);
      if (this.#has("judge_fails") && this.#random.int(2) === 0) {
        if (this.#random.int(2) === 0) throw new TransportError("reset_before_head", request.url);
        return answer(500, ['{"error":"no"}'], "application/json");
      }
      if (this.#has("judge_hangs") && this.#random.int(2) === 0) await clock.sleep(1e9, signal);
      this.verdicts++;
      const babbles = this.#has("judge_babbles") && this.#random.int(2) === 0;
      return answer(200, reply(agrees(prompt), babbles, this.#random), "text/event-stream");
    };
  }

  #policy(settings: EarlyExitConfig): ExitPolicy | undefined {
    const policy = exitPolicyOf(settings);
    if (policy === undefined) return undefined;
    return {
      needs: policy.needs,
      wants: (state) => policy.wants(this.#withLogprobs(state)),
      decide: (state, evidence) => {
        const decision = policy.decide(this.#withLogprobs(state), evidence);
        this.asked.push({ state, decision, truth: policy.decide(state, truthOf(state, settings)) });
        return decision;
      },
    };
  }

  #withLogprobs(state: ClusterState): ClusterState {
    if (!this.#has("no_logprobs") && !this.#has("zero_probability")) return state;
    const logprobs = (all: readonly number[] | undefined) =>
      this.#has("no_logprobs") ? undefined : all?.map(() => -Infinity);
    return {
      ...state,
      completions: state.completions.map((one) => ({ ...one, logprobs: logprobs(one.logprobs) })),
    };
  }

  async #compare(clock: VirtualClock, a: string, b: string): Promise<Similarity> {
    await clock.sleep(this.#has("slow") ? this.#random.int(700) : this.#random.int(20));
    if (this.#has("dead")) await new Promise(() => {});
    if (this.#has("rejects") && this.#random.int(2) === 0) throw new Error("The scorer has no answer");
    const found: Similarity = { metric: "fcs", value: similarityOf(a, b), tokens: [50, 50] };
    if (this.#has("nan") && this.#random.int(2) === 0) {
      return { ...found, value: this.#random.pick([NaN, 2, -1]) };
    }
    if (!this.#has("shapes") || this.#random.int(2) === 0) return found;
    return this.#random.pick<unknown>([null, undefined, 7, {}, { value: "1" }, {
      ...found,
      tokens: 3,
    }]) as Similarity;
  }

  #has(fault: ExitFault): boolean {
    if (this.#fault === "all") return this.#random.int(8) === 0;
    return this.#fault === fault;
  }
}

/** The prompt of a verdict, as the simulated chat endpoint gets it. */
function verdictOf({ body, url }: OutgoingRequest): string | undefined {
  if (
    typeof body !== "string" || !url.endsWith("/v1/chat/completions") || !body.includes('"max_tokens":1,')
  ) {
    return undefined;
  }
  const { messages } = JSON.parse(body) as { messages: { content: string }[] };
  const content = messages[0]?.content;
  return content?.includes("<answer_2>") === true ? content : undefined;
}

/** What is true of the pairs of a state. */
function truthOf({ completions, question }: ClusterState, { verdict }: EarlyExitConfig): Evidence {
  const texts = ([a, b]: readonly [number, number]) => [completions[a]!.text, completions[b]!.text] as const;
  const yes = (first: string, second: string) => {
    const prompt = verdictPrompt({ question, first, second, maxTokens: verdict.max_tokens });
    const [chosen, other] = [Math.exp(sure), Math.exp(unsure)];
    return (agrees(prompt) ? chosen : other) / (chosen + other);
  };
  return {
    similarity: (pair) => ({ metric: "fcs", value: similarityOf(...texts(pair)), tokens: [50, 50] }),
    verdict: (pair) => {
      const [a, b] = texts(pair);
      return { yes: verdict.swap ? Math.min(yes(a, b), yes(b, a)) : yes(a, b), model: "judge" };
    },
  };
}

function reply(agree: boolean, babbles: boolean, random: Random): string[] {
  const [first, second] = agree ? ["Yes", "No"] : ["No", "Yes"];
  const top = [{ token: first, logprob: sure, bytes: null }, { token: second, logprob: unsure, bytes: null }];
  const odd = random.pick<unknown>([
    null,
    { content: [] },
    { content: [{ token: "Well", logprob: -0.1, bytes: null, top_logprobs: [] }] },
    { content: [{ token: first, logprob: null, bytes: null, top_logprobs: [{ token: 3 }] }] },
  ]);
  const logprobs = babbles ? odd : { content: [{ ...top[0], top_logprobs: top }] };
  const head = { id: "v", object: "chat.completion.chunk", created: 1, model: "m" };
  const choice = {
    index: 0,
    delta: { role: "assistant", content: first },
    logprobs,
    finish_reason: "length",
  };
  const usage = { prompt_tokens: 100, completion_tokens: 1, total_tokens: 101 };
  return [
    `data: ${JSON.stringify({ ...head, choices: [choice] })}\n\n`,
    `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`,
    "data: [DONE]\n\n",
  ];
}

const utf8 = new TextEncoder();

function answer(status: number, pieces: readonly string[], type: string): IncomingResponse {
  async function* body(): AsyncGenerator<Uint8Array> {
    for (const piece of pieces) yield await Promise.resolve(utf8.encode(piece));
  }
  return { status, headers: { "content-type": type }, body: body() };
}
