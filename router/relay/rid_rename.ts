import { Buffer } from "node:buffer";
import type { AnswerRewrite } from "./answer_rewrite.ts";
import type { RequestIds } from "./request_ids.ts";
import { applyEdits, type Edit } from "../wire/splice_json.ts";

/** Longest `.N.` behind the random part that is looked at. */
const MAX_SUFFIX_BYTES = 12;

/** Writes the client's own ids into answers, in place of those under which an engine knows the request. */
export class RidRename implements AnswerRewrite {
  readonly #space: Uint8Array;
  readonly #own: readonly Uint8Array[];
  /** True where the ids are numbered; else there is one, and what SGLang puts behind it stays. */
  readonly #numbered: boolean;

  constructor({ space }: RequestIds, own: string | readonly string[]) {
    const encoder = new TextEncoder();
    const list = typeof own === "string" ? [own] : own;
    this.#space = encoder.encode(space);
    this.#own = list.map((rid) => encoder.encode(JSON.stringify(rid).slice(1, -1)));
    this.#numbered = typeof own === "object";
  }

  answer(bytes: Uint8Array): Uint8Array {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const edits: Edit[] = [];
    let start = buffer.indexOf(this.#space);
    while (start >= 0) {
      let end = start + this.#space.length;
      const suffix = buffer.toString("latin1", end, end + MAX_SUFFIX_BYTES);
      const [all = "", index] = this.#numbered ? /^\.(\d+)\./.exec(suffix) ?? [] : ["", "0"];
      end += all.length;
      const own = index === undefined ? undefined : this.#own[Number(index)];
      if (own !== undefined) edits.push({ start, end, content: own });
      start = buffer.indexOf(this.#space, end);
    }
    return applyEdits(bytes, edits);
  }

  events(bytes: Uint8Array): Uint8Array {
    return this.answer(bytes);
  }
}
