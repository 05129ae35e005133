import { joined } from "../../base/bytes.ts";
import type { Choice } from "../engine/choice.ts";

const utf8 = new TextEncoder();
const COMPLETION_TOKENS = '"completion_tokens":';

/** Parts of a stream that its events repeat. */
export interface Repeats {
  /** Nothing at all: the server was started with `--incremental-streaming-output`. */
  readonly incremental: boolean;
  /** Older versions send the new ids only, and before the first ones the end of the prompt. */
  readonly lookBack: readonly number[] | undefined;
}

/**
 * The events of one streamed answer of `/generate`. Unless told otherwise each repeats all text and ids so far: they are kept as UTF-8 and
 * only grow, so that an event costs one copy.
 */
export class StreamedEvents {
  readonly #choice: Choice;
  readonly #tail: string;
  readonly #meta: (first: boolean) => string;
  readonly #steady: boolean;
  #text = new GrowingText();
  #ids = new GrowingText();
  #events = 0;
  readonly #repeats: Repeats;
  /** `meta_info` around the count of tokens, the only part that changes while the answer runs. */
  #around: readonly [string, string] | undefined;

  /** `tail`: what follows `meta_info`. `steady`: nothing but the count changes in `meta_info` until the end. */
  constructor(
    choice: Choice,
    tail: string,
    steady: boolean,
    repeats: Repeats,
    meta: (first: boolean) => string,
  ) {
    this.#repeats = repeats;
    this.#choice = choice;
    this.#tail = tail;
    this.#steady = steady;
    this.#meta = meta;
  }

  /** The event for everything that is new. */
  next(): Uint8Array {
    const { finish } = this.#choice;
    const first = this.#events++ === 0;
    const delta = this.#choice.take();
    const { incremental, lookBack } = this.#repeats;
    if (incremental) this.#text = new GrowingText();
    if (incremental || finish === undefined) this.#text.append(JSON.stringify(delta.text).slice(1, -1));
    else {
      // A stop string may take back text that was shown already.
      this.#text = new GrowingText();
      this.#text.append(JSON.stringify(this.#choice.text).slice(1, -1));
    }
    if (incremental || lookBack !== undefined) this.#ids = new GrowingText();
    for (const id of first ? lookBack ?? [] : []) this.#addId(id);
    for (const id of delta.ids) this.#addId(id);
    const meta = first || finish !== undefined || !this.#steady ? this.#meta(first) : this.#runningMeta();
    return joined([
      utf8.encode('data: {"text":"'),
      this.#text.bytes(),
      utf8.encode('","output_ids":['),
      this.#ids.bytes(),
      utf8.encode(`],"meta_info":${meta}${this.#tail}}\n\n`),
    ]);
  }

  #addId(id: number): void {
    this.#ids.append(this.#ids.length === 0 ? String(id) : `,${id}`);
  }

  #runningMeta(): string {
    if (this.#around === undefined) {
      const meta = this.#meta(false);
      const at = meta.indexOf(COMPLETION_TOKENS) + COMPLETION_TOKENS.length;
      this.#around = [meta.slice(0, at), meta.slice(meta.indexOf(",", at))];
    }
    return `${this.#around[0]}${this.#choice.ids.length}${this.#around[1]}`;
  }
}

/** UTF-8 that grows at its end. */
class GrowingText {
  #bytes = new Uint8Array(256);
  length = 0;

  append(text: string): void {
    const most = this.length + 3 * text.length;
    if (most > this.#bytes.length) {
      const larger = new Uint8Array(2 * most);
      larger.set(this.bytes());
      this.#bytes = larger;
    }
    this.length += utf8.encodeInto(text, this.#bytes.subarray(this.length)).written;
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }
}
