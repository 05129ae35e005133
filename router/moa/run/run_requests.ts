import type { Clock } from "../../../base/clock.ts";
import type { Sampling } from "../../engines/engine.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import type { AgentCall, AgentRequest, Asked, EventSink, StandIn } from "../agent/agent_call.ts";
import { type AgentGraph, type AgentNode, soleRoot } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import { samplingOfChoice } from "../graph/sampling.ts";
import { fitContext, type FittedPrompt } from "../prompt/context_budget.ts";
import type { CutAnswer } from "../prompt/cut_answers.ts";
import { RunPrompts } from "../prompt/run_prompts.ts";
import type { Trace } from "../record/trace.ts";
import type { RunWarming } from "../warm/run_warming.ts";
import type { RunCalls } from "./run_calls.ts";
import type { RunClusters } from "./run_clusters.ts";
import type { RunOutput } from "./run_output.ts";
import { fallbacksOf, type FindModel } from "../../served/fallbacks.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** A request whose prompt is whole. */
export type PromptedRequest = AgentRequest & { readonly asked: Asked | Promise<Asked> };

/** Options of `RunRequests`. */
export interface RunRequestsOptions {
  readonly graph: AgentGraph;
  readonly input: RunInput;
  readonly find: FindModel;
  readonly calls: RunCalls;
  readonly clusters: RunClusters;
  readonly prompts: RunPrompts;
  readonly warming: RunWarming;
  readonly output: RunOutput;
  readonly trace: Trace;
  readonly clock: Clock;
  /** The parameters of an agent that reads nobody, as a staircase wants them. */
  readonly leafSampling: (node: AgentNode, sampling: Sampling) => Sampling;
  /** True where an exit looks at an agent's log-probabilities. */
  readonly wantsLogprobs: (node: AgentNode) => boolean;
}

/** What a run's agents ask their engines for: prompts that fit, sampling, log-probabilities, who gets the output. */
export class RunRequests {
  readonly #options: RunRequestsOptions;
  /** Answers that were cut for the agents that read them. */
  readonly #cuts = new Map<AgentNode, readonly CutAnswer[]>();
  /** Prompts for models that stand in for others. */
  #unspliced: RunPrompts | undefined;

  constructor(options: RunRequestsOptions) {
    this.#options = options;
  }

  /** The request of an agent whose clusters are closed. Throws when its prompt cannot be made. */
  of(node: AgentNode): PromptedRequest {
    const { graph, input, calls, clusters, prompts, warming, clock, leafSampling, wantsLogprobs } =
      this.#options;
    const target = calls.target(node);
    warming.close(node);
    const answers = clusters.answersFor(node);
    const fitted = fitContext(target, { prompts, answers, onOverflow: graph.onOverflow, clock });
    const noted = (known: FittedPrompt) => {
      const whole = this.#note(node, target.sampling, known);
      const sampling = node.reads.length > 0 ? whole.sampling : leafSampling(node, whole.sampling);
      return { ...whole, sampling };
    };
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
      standIns: this.#standIns(node),
    };
  }

  /** The models that may answer in the place of an agent's own; their prompts are made anew, each by its own tokenizer. */
  #standIns(node: AgentNode): readonly StandIn[] {
    const { graph, find, calls, clusters, clock } = this.#options;
    const { sampling } = calls.target(node);
    return fallbacksOf(node.model, find).map((served) => ({
      model: served,
      ask: () => {
        const { question } = this.#options.input;
        refuseFor(served, sampling, question.kind === "chat" ? "/v1/chat/completions" : "/v1/completions");
        // What was spliced was spliced for another tokenizer.
        const prompts = this.#unspliced ??= new RunPrompts(question, graph.neutralisedTexts);
        const answers = clusters.answersFor(node);
        return fitContext({ node, served, sampling }, {
          prompts,
          answers,
          onOverflow: graph.onOverflow,
          clock,
        });
      },
    }));
  }

  /** A choice of the root: the calls differ in their seeds, and their output goes to the client. */
  ofRoot(request: PromptedRequest, call: AgentCall): AgentRequest {
    const { choice } = call;
    const seeded = ({ prompt, sampling }: Asked): Asked => ({
      prompt,
      sampling: samplingOfChoice(sampling, choice),
    });
    const seededLater = (given: Asked | Promise<Asked>) =>
      given instanceof Promise ? given.then(seeded) : seeded(given);
    const asked = seededLater(request.asked);
    if (asked instanceof Promise) asked.catch(() => {});
    const standIns = request.standIns?.map(({ model, ask }) => ({ model, ask: () => seededLater(ask()) }));
    return { ...request, asked, standIns, sink: this.sink(call) };
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

/** Throws a 400 for parameters that would kill a model's engine. */
function refuseFor({ config, engine, tokenizer }: ServedModel, sampling: Sampling, path: string): void {
  const { extra, ...own } = sampling;
  refuseDeadly({
    engine: config.engine,
    version: engine.capabilities.version,
    vocabSize: tokenizer?.vocabSize,
    path,
    body: { ...extra, ...own },
  });
}
