import type { KeyValues } from "../cache/key_values.ts";
import type { SequenceRequest } from "./generator.ts";
import { TokenHistory } from "./sampling.ts";

/** Tokens of an answer that room is kept for before they come. */
const ANSWER_ROOM_TOKENS = 256;

/** A sequence on its way through the scheduler. */
export class Sequence {
  readonly key: number;
  readonly request: SequenceRequest;
  /** Of the prompt and of the answer so far. */
  readonly ids: number[];
  readonly history: TokenHistory;
  /** Keys and values of its first tokens; undefined while they are in a batch, or held elsewhere only. */
  keyValues: KeyValues | undefined;
  /** Its keys and values are in the batch. */
  batched = false;
  /** It was in a batch that failed: it is computed by itself from then on. */
  alone = false;
  /** Tokens whose keys and values are known. `keyValues` may hold more, which others have appended. */
  known = 0;
  /** Tokens of the prompt that were known when it started. */
  cachedTokens: number | undefined;
  /** The prompt has been told of. */
  answered = false;
  aborted = false;

  constructor(key: number, request: SequenceRequest) {
    this.key = key;
    this.request = request;
    this.ids = [...request.promptIds];
    this.history = new TokenHistory(request.promptIds);
  }

  get priority(): number {
    const { priority = 0, priorityTokens = Infinity } = this.request;
    return this.generated < priorityTokens ? priority : 0;
  }

  get generated(): number {
    return this.history.length;
  }

  /** Tokens that may still come. */
  get left(): number {
    return this.request.maxTokens - this.generated;
  }

  /** Tokens that room is kept for: those there are and some to come. */
  get expectedTokens(): number {
    return this.ids.length + Math.min(this.left, ANSWER_ROOM_TOKENS);
  }

  /** Only the last token is to be computed, and it is one of the answer. */
  get answers(): boolean {
    return this.generated > 0 && (this.batched || this.keyValues !== undefined) &&
      this.known === this.ids.length - 1;
  }

  start(keyValues: KeyValues | undefined, known: number): void {
    this.keyValues = keyValues;
    this.known = known;
    this.cachedTokens ??= known;
  }

  /** Lets go of its keys and values, which are held elsewhere or lost. */
  reset(): void {
    this.keyValues = undefined;
    this.batched = false;
    this.known = 0;
  }
}
