import type { JsonObject } from "../../../base/json.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { RootStart } from "../../../cfgs/schema/staircase.ts";
import type { Sampling } from "../../engines/engine.ts";

/** A conversation (chat), or a raw prompt (completions). */
export type Question =
  | { readonly kind: "chat"; readonly messages: readonly ChatMessage[] }
  | { readonly kind: "text"; readonly text: string };

/** Limits of one run; each may be absent. */
export interface RunLimits {
  /** From the run's start to its last word. */
  readonly latencyMs?: number | undefined;
  /** Prompts and answers of all agents together. */
  readonly tokens?: number | undefined;
  /** In the currency of the models' prices. */
  readonly cost?: number | undefined;
}

/** A request as it can be sent again. */
export interface AskedRequest {
  readonly path: "/v1/chat/completions" | "/v1/completions";
  /** Without its seed, which is in the run's sampling, and without what concerns its delivery alone. */
  readonly body: JsonObject;
}

/** One request to a graph. */
export interface RunInput {
  /** As the client has sent it, of a virtual model; absent: the request brought its own graph. */
  readonly asked?: AskedRequest | undefined;
  readonly question: Question;
  /** The client's parameters; they go to the root, over the root's own. */
  readonly rootSampling: Sampling;
  /** Log-probabilities of the root's tokens, with this many alternatives. */
  readonly rootLogprobs?: number | undefined;
  /** Answers wanted (`n`): the root is called this many times. */
  readonly choices: number;
  /** When the root starts; absent: as the graph says. */
  readonly root?: RootStart | undefined;
  /** The client whose run it is, by a name that only comparing makes sense of; undefined for nobody in particular. */
  readonly owner?: string | undefined;
  /** The client gets the answer in one piece: until its end it may be begun anew. */
  readonly whole?: boolean | undefined;
  /** Ends the run with the best answer known by then, and lets fewer agents start. */
  readonly budget?: RunLimits | undefined;
  /** Headers to pass on to the engines. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}
