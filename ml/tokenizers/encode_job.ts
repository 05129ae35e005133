import type { Encoded, EncodeJob } from "./long_texts.ts";
import type { ModelTokenizer } from "./model_tokenizer.ts";

/** Text that is taken in between two looks at how many ids there are. */
const SLICE_LENGTH = 16 * 1024;

/** Encodes a text, in slices where its tokenizer can, so that one that is too long costs no more than one that is not. */
export function runEncodeJob(tokenizer: ModelTokenizer, job: EncodeJob): Encoded<Int32Array> {
  const { text, marked, from, open = false, maxTokens = Infinity } = job;
  const { streaming } = tokenizer;
  if (streaming === undefined || "refusal" in streaming) {
    if (from !== undefined || open) throw new Error("This tokenizer encodes whole texts only");
    return encoded(tokenizer.encode(text, { marked }), job);
  }
  const stream = streaming.open({ marked });
  if (from !== undefined) stream.reset({ ...from, tokens: 0 });
  for (let at = 0; at < text.length; at += SLICE_LENGTH) {
    stream.append(text.slice(at, at + SLICE_LENGTH));
    if (stream.stable.length > maxTokens) break;
  }
  if (stream.stable.length > maxTokens) return encoded(stream.stable, job);
  if (!open) return encoded(stream.complete(), job);
  const ids = Int32Array.from(stream.stable);
  return { ids, tokens: ids.length, state: stream.mark(), over: false };
}

function encoded(
  all: readonly number[],
  { maxTokens = Infinity, ends = Infinity }: EncodeJob,
): Encoded<Int32Array> {
  const over = all.length > maxTokens;
  const ids = over ? all.slice(0, maxTokens + 1) : all;
  const given = ids.length > 2 * ends ? [...ids.slice(0, ends), ...ids.slice(ids.length - ends)] : ids;
  return { ids: Int32Array.from(given), tokens: ids.length, state: undefined, over };
}
