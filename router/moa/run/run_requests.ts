import type { Clock } from "../../../base/clock.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentCall, AgentRequest, Asked, EventSink } from "../agent/agent_call.ts";
import { type AgentGraph, type AgentNode, soleRoot } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import { samplingOfChoice } from "../graph/sampling.ts";
import { fitContext, type FittedPrompt } from "../prompt/context_budget.ts";
import type { CutAnswer } from "../prompt/cut_answers.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import type { Trace } from "../record/trace.ts";
import type { RunWarming } from "../warm/run_warming.ts";
import type { RunCalls } from "./run_calls.ts";
import type { RunClusters } from "./run_clusters.ts";
import type { RunOutput } from "./run_output.ts";

/** A request whose prompt is whole. */
export type PromptedRequest = AgentRequest & { readonly asked: Asked | Promise<Asked> };

/** Options of `RunRequests`. */
export interface RunRequestsOptions {
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly calls: RunCalls;
  readonly clusters: RunClusters;
  readonly prompts: RunPrompts;
  readonly warming: RunWarming;
  readonly output: RunOutput;
  readonly trace: Trace;
  readonly clock: Clock;
  /** True where an exit looks at an agent's log-probabilities. */
  readonly wantsLogprobs: (node: AgentNode) => boolean;
}

/** What a run's agents ask their engines for: prompts that fit, sampling, log-probabilities, who gets the output. */
export class RunRequests {
  readonly #options: RunRequestsOptions;
  /** Answers that were cut for the agents that read them. */
  readonly #cuts = new Map<AgentNode, readonly CutAnswer[]>();

  constructor(options: RunRequestsOptions) {
    this.#options = options;
  }

  /** The request of an agent whose clusters are closed. Throws when its prompt cannot be made. */
  of(node: AgentNode): PromptedRequest {
    const { graph, input, calls, clusters, prompts, warming, clock, wantsLogprobs } = this.#options;
    const target = calls.target(node);
    warming.close(node);
    const answers = clusters.answersFor(node);
    const fitted = fitContext(target, { prompts, answers, onOverflow: graph.onOverflow, clock });
    const noted = (known: FittedPrompt) => this.#note(node, target.sampling, known);
    const prompt = fitted instanceof Promise ? fitted.then(noted) : noted(fitted);
    // A call that is over does not wait for it.
    if (prompt instanceof Promise) prompt.catch(() => {});
    const asked = node === soleRoot(graph) ? input.rootLogprobs : undefined;
    const scored = asked === undefined && wantsLogprobs(node) && target.served.engine.capabilities.logprobs;
    return {
      asked: prompt,
      stickyKey: warming.stickyKey(node),
      logprobs: scored ? 0 : asked,
      logprobsOptional: scored,
    };
  }

  /** A choice of the root: the calls differ in their seeds, and their output goes to the client. */
  ofRoot(request: PromptedRequest, call: AgentCall): AgentRequest {
    const { choice } = call;
    const seeded = ({ prompt, sampling }: Asked): Asked => ({
      prompt,
      sampling: samplingOfChoice(sampling, choice),
    });
    const asked = request.asked instanceof Promise ? request.asked.then(seeded) : seeded(request.asked);
    if (asked instanceof Promise) asked.catch(() => {});
    return { ...request, asked, sink: this.sink(call) };
  }

  /** The client, as the one who gets a root's output. */
  sink({ choice }: AgentCall): EventSink {
    const { input, output } = this.#options;
    return input.whole === true ? output.wholeChoice(choice) : output.choice(choice);
  }

  /** Tokens that an agent's prompt lacks of the answers that it reads; undefined where nothing was cut. */
  cutTokens(node: AgentNode): number | undefined {
    const cuts = this.#cuts.get(node) ?? [];
    return cuts.length === 0 ? undefined : cuts.reduce((sum, { tokens, kept }) => sum + tokens - kept, 0);
  }

  /** Reports what was done for a prompt to fit its agent's context. */
  #note(node: AgentNode, asked: Sampling, fitted: FittedPrompt): FittedPrompt {
    const { prompts, warming, trace } = this.#options;
    const { cuts, sampling, promptTokens } = fitted;
    if (cuts.length > 0) {
      this.#cuts.set(node, cuts);
      warming.shortened(node, prompts.keptTokens(node) ?? 0);
      const answers = cuts.map(({ agent, tokens, kept }) => ({ agent, tokens, kept }));
      trace.add("answers_cut", { agent: node.id, data: { answers, prompt_tokens: promptTokens ?? 0 } });
    }
    if (sampling.max_tokens !== asked.max_tokens && sampling.max_tokens !== undefined) {
      const data = { from: asked.max_tokens ?? 0, to: sampling.max_tokens, prompt_tokens: promptTokens ?? 0 };
      trace.add("max_tokens_lowered", { agent: node.id, data });
    }
    return fitted;
  }
}
