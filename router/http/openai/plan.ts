import { badRequest } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { RootStart } from "../../../cfgs/schema/staircase.ts";
import { whyNotGoneOn } from "../../moa/agent/resumed_answer.ts";
import { hasChatFields } from "../../moa/prompt/wire_prompt.ts";
import { isSet } from "../gate/fields.ts";
import type { CommonRequest } from "./request_schema.ts";
import type { Graph } from "../../moa/graph/graph_types.ts";
import type { RunInput } from "../../moa/graph/run_input.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** A request to a virtual model, read and checked. */
export interface CompletionPlan {
  readonly graph: Graph;
  /** The name that the client asked for: every answer bears it. */
  readonly model: string;
  /** One run per prompt. */
  readonly inputs: readonly RunInput[];
  /** Answers per prompt; choice `i` of prompt `p` has index `p * choices + i`. */
  readonly choices: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  /** The additions of `canopy.include`; undefined when `canopy` is absent. */
  readonly include: readonly Include[] | undefined;
  /** When the root starts, where the client has said so. */
  readonly root: RootStart | undefined;
  readonly logprobs: boolean;
  /** Stop strings that the root's engine does not take: the router ends the text at these itself. */
  readonly ownStops: readonly string[];
  /** The prompts' texts, to be repeated before the answers (`echo`). */
  readonly echo: readonly string[] | undefined;
}

/** A graph that a request is for, with the model of its root. */
export interface RunTarget {
  readonly graph: Graph;
  /** Undefined only when the graph's root names no served model. */
  readonly root: ServedModel | undefined;
}

/** The parts of a plan that both endpoints read alike. */
export function commonPlan(
  request: CommonRequest,
  body: JsonObject,
  target: RunTarget,
): Pick<
  CompletionPlan,
  "graph" | "model" | "choices" | "stream" | "includeUsage" | "continuousUsage" | "include" | "root"
> {
  if (target.graph.joined !== undefined) refuseForJoined(request, target.graph.joined.agents.length);
  return {
    graph: target.graph,
    model: String(body["model"]),
    choices: request.n ?? 1,
    ...readDelivery(request),
    include: isSet(request.canopy) ? request.canopy.include ?? [] : undefined,
    root: request.canopy?.root ?? undefined,
  };
}

/** Throws 400 for what only one agent's output can give, where the texts of several are the answer. */
function refuseForJoined(request: CommonRequest, agents: number): void {
  const refuse = (name: string) => {
    throw badRequest(
      name,
      `${name} cannot be given: the answer is the texts of ${agents} agents, one after the other`,
      "unsupported_parameter",
    );
  };
  if ((request.n ?? 1) > 1) refuse("n");
  if (isSet(request.tools) && request.tools.length > 0) refuse("tools");
}

/** Reads whether an answer is streamed, and with which usage. */
export function readDelivery(
  request: Pick<CommonRequest, "stream" | "stream_options">,
): Pick<CompletionPlan, "stream" | "includeUsage" | "continuousUsage"> {
  const stream = request.stream === true;
  if (!stream && isSet(request.stream_options)) {
    throw badRequest("stream_options", "stream_options needs stream: true");
  }
  return {
    stream,
    includeUsage: request.stream_options?.include_usage === true,
    continuousUsage: request.stream_options?.continuous_usage_stats === true,
  };
}

/** The sampling parameters with as many stop strings as the root's engine takes, and the others. */
export function splitStops(
  sampling: Sampling,
  target: RunTarget,
): { sampling: Sampling; ownStops: readonly string[] } {
  const most = target.root?.engine.capabilities.maxStopStrings;
  const { stop } = sampling;
  if (stop === undefined || most === undefined || stop.length <= most) return { sampling, ownStops: [] };
  return { sampling: { ...sampling, stop: stop.slice(0, most) }, ownStops: stop.slice(most) };
}

/** Throws 400 when log-probabilities are asked from a root whose engine has none, or from several roots. */
export function requireLogprobs(target: RunTarget): void {
  if (target.graph.joined !== undefined) {
    throw badRequest(
      "logprobs",
      "logprobs cannot be given: the answer is the texts of several agents, one after the other",
      "unsupported_parameter",
    );
  }
  if (target.root !== undefined && !target.root.engine.capabilities.logprobs) {
    throw badRequest(
      "logprobs",
      `logprobs cannot be given: the engine of ${target.root.name}, the root of ${target.graph.name}, returns none`,
      "unsupported_parameter",
    );
  }
}

/** Extra response fields a client may ask for with `"canopy": {"include": [...]}`. */
export type Include = "usage" | "panel" | "trace";

/** Throws 400 when a client asks for a staircase that its graph, the root's engine or other parameters rule out. */
export function refuseStaircase({ graph, root }: RunTarget, plan: CompletionPlan): void {
  if (plan.root !== "staircase") return;
  const refuse = (why: string, remedy: string) => {
    const message = `canopy.root cannot be "staircase" for ${graph.name}: ${why}; ${remedy}`;
    throw badRequest("canopy.root", message, "unsupported_parameter");
  };
  const refusal = graph.root.reads.length === 0 ? "its root reads nobody" : graph.staircase?.refusal;
  if (refusal !== undefined) refuse(refusal, "leave it out, or ask a virtual model without that setting");
  if (root === undefined) return;
  const { capabilities } = root.engine;
  const wait = 'leave it out, or say "wait"';
  if (!capabilities.tokenIds) refuse(`the engine of ${root.name} takes no token ids`, wait);
  if (!capabilities.returnsTokenIds) {
    refuse(`the engine of ${root.name} does not return the ids of its tokens`, wait);
  }
  if (root.tokenizer === undefined) {
    refuse(
      `the router does not know the tokenizer of ${root.name}`,
      `leave it out, or set models.${root.name}.tokenizer`,
    );
  }
  const sampling = plan.inputs[0]?.rootSampling ?? {};
  const parameters = whyNotGoneOn(sampling) ??
    (hasChatFields(sampling) ? "its parameters need the engine's chat endpoint" : undefined);
  if (parameters !== undefined) refuse(parameters, "leave one of the two out");
}
