import type { CacheNode } from "./prefix_cache.ts";

/** Listener of the front end to a sequence; called inside an engine step, in batch order. */
export interface SequenceListener {
  /** The prompt is computed: the next token, or undefined when the sequence ends without one. */
  sample(): number | undefined;
  /** A token was made; true ends the sequence. */
  token(id: number): boolean;
  /** The engine stopped the sequence because of `abort`. */
  aborted(): void;
  /** End of the sequence; undefined before. */
  readonly finish: { readonly type: string; readonly failure?: unknown } | undefined;
}

/** One sequence in the engine. */
export class EngineSequence {
  /** Prompt and answer so far. */
  readonly tokens: number[];
  readonly promptLength: number;
  readonly salt: string;
  /** Prefix-cache hits are not used beyond this length (log-probabilities of the prompt are wanted from there). */
  readonly cacheLimit: number;
  readonly listener: SequenceListener;
  /** Prompt tokens found in the cache when the sequence was first scheduled. */
  cachedTokens = 0;
  readonly arrivedMs: number;
  scheduledMs: number | undefined;
  prefilledMs: number | undefined;
  endedMs: number | undefined;
  /**
   * `allocated`: memory is held for KV that another engine computes. `handing_off`: the prompt is computed and its KV
   * kept until another engine has it.
   */
  state: "waiting" | "allocated" | "running" | "handing_off" | "ended" = "waiting";
  abortRequested = false;
  /** False: its KV never enters the prefix tree. */
  inserts = true;
  /** Called when the prompt is computed, with the first token; the KV stays until `Scheduler.release`. */
  handOff: ((firstToken: number) => void) | undefined;
  /** Called when it ends by itself; its memory is kept until `Scheduler.unpin`. */
  onFinish: (() => void) | undefined;
  /** Tokens whose KV has come from elsewhere, for a sequence that goes on behind them. */
  resumeAt: number | undefined;
  /** The first token, made by the engine that computed the prompt. */
  firstToken: number | undefined;
  /** End of the first step that computed a part of the prompt. */
  firstChunkMs: number | undefined;
  /** Prompt tokens computed in the last step. */
  lastChunk = 0;
  /** Tokens whose KV is there. */
  computed = 0;
  /** Tokens to compute in the running step. */
  chunk = 0;
  node: CacheNode | undefined;
  /** Tokens on the path of `node`. */
  sharedTokens = 0;
  /** Tokens of KV memory held outside the tree. */
  privateTokens = 0;

  constructor(options: {
    prompt: readonly number[];
    salt: string;
    cacheLimit: number;
    listener: SequenceListener;
    arrivedMs: number;
  }) {
    this.tokens = options.prompt.slice();
    this.promptLength = options.prompt.length;
    this.salt = options.salt;
    this.cacheLimit = options.cacheLimit;
    this.listener = options.listener;
    this.arrivedMs = options.arrivedMs;
  }
}
