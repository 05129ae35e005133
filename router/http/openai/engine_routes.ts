/** A route that is relayed to engine models as it is. */
export interface EngineRoute {
  readonly path: string;
  readonly does: string;
  /** Path on the worker, where it is another one. */
  readonly workerPath?: string | undefined;
  /** SGLang's and vLLM's pairs serve it; without it, only whole servers do. */
  readonly pairs?: boolean | undefined;
  /** SGLang's own form of it names no model: the only one that is served is meant. */
  readonly nameless?: boolean | undefined;
  /** Graphs are served there, too: the route stands with their part of it. */
  readonly graphs?: boolean | undefined;
  /** The body is a form with a file, not JSON. */
  readonly form?: boolean | undefined;
}

/** Everything that engines serve beside chat and completions; what an engine lacks, it says itself. */
export const ENGINE_ROUTES: readonly EngineRoute[] = [
  { path: "/v1/embeddings", does: "Embed texts." },
  { path: "/v1/rerank", does: "Order documents by a question." },
  { path: "/rerank", does: "Order documents by a question.", workerPath: "/v1/rerank", nameless: true },
  { path: "/v1/score", does: "Score texts." },
  { path: "/score", does: "Score texts.", workerPath: "/v1/score" },
  { path: "/v1/classify", does: "Classify texts.", workerPath: "/classify" },
  { path: "/classify", does: "Classify texts.", nameless: true },
  { path: "/pooling", does: "Hidden states of texts." },
  { path: "/v1/responses", does: "OpenAI's Responses.", graphs: true },
  { path: "/v1/messages", does: "Anthropic's Messages.", graphs: true },
  { path: "/v1/messages/count_tokens", does: "Tokens of Anthropic's Messages.", graphs: true },
  { path: "/v1/audio/transcriptions", does: "Write down what is said.", form: true },
  { path: "/v1/audio/translations", does: "Translate what is said.", form: true },
  { path: "/tokenize", does: "Token ids of a text.", pairs: true },
  { path: "/v1/tokenize", does: "Token ids of a text.", workerPath: "/tokenize", pairs: true },
  { path: "/detokenize", does: "Text of token ids.", pairs: true },
  { path: "/v1/detokenize", does: "Text of token ids.", workerPath: "/detokenize", pairs: true },
];

const BY_PATH = new Map(ENGINE_ROUTES.map((route) => [route.path, route]));

/** The route of a path; undefined for those that are not in the table. */
export function engineRoute(path: string): EngineRoute | undefined {
  return BY_PATH.get(path);
}
