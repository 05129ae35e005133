import {
  BPE,
  ByteLevelPreTokenizer,
  DigitsPreTokenizer,
  PunctuationPreTokenizer,
  SplitPreTokenizer,
  type Tokenizer,
} from "@huggingface/tokenizers";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { type AddedToken, type Streaming, type StreamRules, tokenStreams } from "./token_stream.ts";

/** The parts of a tokenizer's files that `streamingOf` reads. */
export interface StreamedFiles {
  readonly normalizer: Json | undefined;
  readonly preTokenizer: Json | undefined;
  readonly config: JsonObject;
}

/** Pieces that each stage of splitting may still change at the end of a text (measured for all common patterns). */
const UNSTABLE_PIECES_PER_SPLIT = 2;

/** Texts on which rules for other tokenizers failed; a tokenizer whose stream differs on one of them is refused. */
const TRICKY_TEXTS = [
  "It's  a\n\n \ttest:\r\n  x=12345, y='ll'\n",
  "na\u0308ive \u1112\u1161\u11ab e\u0301\u0323 \u{1f468}\u200d\u{1f469} \u4f60\u597d\u4e16\u754c 3.14\u00a0kg",
  "<|im_end|>\n<|im_start|>user\n<think> </think> <|im",
];

const UTF8 = new TextEncoder();

class Refusal extends Error {}

/**
 * The way to encode texts while they are written, for BPE tokenizers in the two shapes that language models have:
 * pieces cut by regular expressions (GPT-2, Llama 3, Qwen), where all but the last two pieces are stable, and none
 * (SentencePiece, Llama 2, Gemma), where a place is a boundary when no merge yields the two characters around it in
 * one token. Tokenizers that look farther back or ahead are refused, with the reason.
 */
export function streamingOf(tokenizer: Tokenizer, files: StreamedFiles): Streaming {
  try {
    const open = tokenStreams(rulesOf(tokenizer, files));
    for (const text of TRICKY_TEXTS) {
      const whole = tokenizer.encode(text, { add_special_tokens: false }).ids;
      const stream = open();
      for (const character of text) {
        stream.append(character);
        if (stream.stable.some((id, at) => id !== whole[at])) throw new Refusal("its cuts are not stable");
      }
      if (stream.complete().join() !== whole.join()) throw new Refusal("pieces do not add up to the whole");
    }
    return { open };
  } catch (error) {
    if (error instanceof Refusal) return { refusal: error.message };
    throw error;
  }
}

/** A normal form takes at most so many bytes away: three of four, of a mathematical letter; two of three, of a syllable. */
const MAX_COMPOSITION = 4;

/** Bytes of UTF-8 that one token stands for at most; undefined where rules drop text or join unknown characters. */
export function maxTokenBytesOf(tokenizer: Tokenizer, files: StreamedFiles): number | undefined {
  const { model } = tokenizer;
  if (!(model instanceof BPE) || files.config["remove_space"] === true) return undefined;
  if (model.fuse_unk && !coversAllBytes(model)) return undefined;
  let added = 4;
  for (const token of tokenizer.get_added_tokens_decoder().values()) {
    if (token.lstrip || token.rstrip) return undefined;
    added = Math.max(added, utf8Bytes(token.content));
  }
  const keeps = stepsOf(files.normalizer, "normalizers").every((step) =>
    ["NFC", "NFD", "NFKC", "NFKD", "Prepend"].includes(String(step["type"])) || growsText(step)
  );
  const drops = stepsOf(files.preTokenizer, "pretokenizers").some((step) =>
    !["Split", "ByteLevel", "Digits", "Metaspace", "Punctuation"].includes(String(step["type"])) ||
    step["invert"] === true || String(step["behavior"]).toLowerCase() === "removed"
  );
  if (!keeps || drops) return undefined;
  let longest = added;
  for (const token of model.tokens_to_ids.keys()) longest = Math.max(longest, utf8Bytes(token));
  return files.normalizer === null || files.normalizer === undefined ? longest : longest * MAX_COMPOSITION;
}

function growsText(step: JsonObject): boolean {
  const from = step["type"] === "Replace" ? literalPattern(step) : undefined;
  return from !== undefined && utf8Bytes(String(step["content"] ?? "")) >= utf8Bytes(from);
}

function utf8Bytes(text: string): number {
  return UTF8.encode(text).length;
}

function rulesOf(tokenizer: Tokenizer, files: StreamedFiles): StreamRules {
  const { model } = tokenizer;
  if (!(model instanceof BPE)) throw new Refusal("its model is not BPE");
  if (model.end_of_word_suffix || model.continuing_subword_suffix) {
    throw new Refusal("its tokens know word ends");
  }
  if (files.config["remove_space"] === true || files.config["do_lowercase_and_remove_accent"] === true) {
    throw new Refusal("its configuration rewrites the text");
  }
  if (model.fuse_unk && !coversAllBytes(model)) throw new Refusal("it joins unknown characters");
  const normalizers = stepsOf(files.normalizer, "normalizers");
  const normalizer = normalizerOf(normalizers);
  const splitter = splitterOf(stepsOf(files.preTokenizer, "pretokenizers"), normalizers);
  const split = splitter.stages.length > 0;
  if (!split && model.ignore_merges) throw new Refusal("it looks up whole texts in its vocabulary");
  const addedTokens = addedTokensOf(tokenizer, normalizers.length === 0);
  const joined = split ? undefined : joinedPairs(model);
  return {
    addedTokens,
    composes: normalizer.composes,
    prepare: (text, at) => splitter.prepare(normalizer.apply(text, at.start), at),
    pieces: joined === undefined
      ? (text) => splitter.stages.reduce<string[]>((pieces, stage) => stage(pieces), [text])
      : (text) => cutBetween(text, joined),
    unstablePieces: split ? UNSTABLE_PIECES_PER_SPLIT * splitter.stages.length : 1,
    encode: (pieces) =>
      model(splitter.toTokens([...pieces])).map((token) => {
        const id = model.tokens_to_ids.get(token) ?? model.unk_token_id;
        if (id === undefined) throw new Error(`The tokenizer has no id for ${JSON.stringify(token)}`);
        return id;
      }),
  };
}

/** The members of a `Sequence`, or the one step that is there. */
function stepsOf(config: Json | undefined, members: string): JsonObject[] {
  if (!isJsonObject(config)) return [];
  if (config["type"] !== "Sequence") return [config];
  const list = config[members];
  return Array.isArray(list) ? list.flatMap((step) => stepsOf(step, members)) : [];
}

function normalizerOf(
  steps: readonly JsonObject[],
): { readonly composes: boolean; apply(text: string, start: boolean): string } {
  const forms = steps.map((step) => {
    const type = step["type"];
    switch (type) {
      case "NFC":
      case "NFD":
      case "NFKC":
      case "NFKD":
        return { composes: true, apply: (text: string) => text.normalize(type) };
      case "Prepend": {
        const prefix = String(step["prepend"] ?? "");
        return { composes: false, apply: (text: string, start: boolean) => start ? prefix + text : text };
      }
      case "Replace": {
        const from = literalPattern(step);
        if (from === undefined || [...from].length !== 1) {
          throw new Refusal("its normaliser replaces more than single characters");
        }
        const to = String(step["content"] ?? "");
        return { composes: false, apply: (text: string) => text.replaceAll(from, () => to) };
      }
      default:
        throw new Refusal(`its normaliser ${String(type)} looks at the whole text`);
    }
  });
  return {
    composes: forms.some((form) => form.composes),
    apply: (text, start) => forms.reduce((result, form) => form.apply(result, start), text),
  };
}

/** Cuts pieces into smaller ones. */
type Stage = (pieces: string[]) => string[];

interface Splitter {
  readonly stages: readonly Stage[];
  prepare(text: string, at: { readonly start: boolean; readonly first: boolean }): string;
  /** Pieces in the form in which the model looks them up. */
  toTokens(pieces: string[]): string[];
}

function splitterOf(steps: readonly JsonObject[], normalizers: readonly JsonObject[]): Splitter {
  const stages: Stage[] = [];
  let prepare: Splitter["prepare"] = (text) => text;
  let toTokens: Splitter["toTokens"] = (pieces) => pieces;
  steps.forEach((step, index) => {
    const last = index === steps.length - 1;
    const type = step["type"];
    if (type === "Split") {
      const stage = splitOf(step, normalizers);
      if (stage !== undefined) stages.push(stage);
    } else if (type === "Digits") {
      stages.push(
        new DigitsPreTokenizer({ type: "Digits", individual_digits: step["individual_digits"] === true }),
      );
    } else if (type === "Punctuation") {
      stages.push(new PunctuationPreTokenizer({ type: "Punctuation" }));
    } else if (type === "ByteLevel" && last) {
      if (step["add_prefix_space"] === true) throw new Refusal("it adds spaces in front");
      const bytes = new ByteLevelPreTokenizer({
        type: "ByteLevel",
        add_prefix_space: false,
        use_regex: false,
      });
      if (step["use_regex"] !== false) {
        stages.push((pieces) => pieces.flatMap((piece) => piece.match(bytes.pattern) ?? []));
      }
      toTokens = (pieces) => bytes(pieces);
    } else if (type === "Metaspace" && steps.length === 1) prepare = metaspace(step);
    else throw new Refusal(`its pre-tokeniser ${String(type)} is of no known shape`);
  });
  return { stages, prepare, toTokens };
}

function splitOf(step: JsonObject, normalizers: readonly JsonObject[]): Stage | undefined {
  if (step["invert"] === true || String(step["behavior"]).toLowerCase() === "removed") {
    throw new Refusal("its pre-tokeniser drops text");
  }
  const text = literalPattern(step);
  if (text !== undefined) {
    // Gemma splits at spaces when its normaliser has left none.
    if (normalizers.some((other) => other["type"] === "Replace" && literalPattern(other) === text)) {
      return undefined;
    }
    return split({ String: text });
  }
  const pattern = step["pattern"];
  const regex = isJsonObject(pattern) ? pattern["Regex"] : undefined;
  if (typeof regex !== "string") throw new Refusal("its pre-tokeniser has no pattern");
  if (/\(\?<[=!]|\\[bBAGzZ]|(?:^|[^[\\])\^/.test(regex)) {
    throw new Refusal("its pre-tokeniser looks at what stands before a piece");
  }
  return split({ Regex: regex });
}

function split(pattern: { String: string } | { Regex: string }): Stage {
  return new SplitPreTokenizer({ type: "Split", pattern, behavior: "Isolated", invert: false });
}

/** SentencePiece's `▁` for spaces, and one in front of sections that do not begin with it. */
function metaspace(step: JsonObject): Splitter["prepare"] {
  const replacement = String(step["replacement"] ?? "\u2581");
  const space = String(step["str_rep"] || replacement);
  const scheme = step["prepend_scheme"] ?? "always";
  return (text, { start, first }) => {
    const replaced = text.replaceAll(" ", () => space);
    const prefixed = start && (scheme === "always" || (scheme === "first" && first)) &&
      !replaced.startsWith(replacement);
    return prefixed ? space + replaced : replaced;
  };
}

function literalPattern(step: JsonObject): string | undefined {
  const pattern = step["pattern"];
  const text = isJsonObject(pattern) ? pattern["String"] : undefined;
  return typeof text === "string" && text !== "" ? text : undefined;
}

/** The added tokens. `unchanged`: normalising leaves texts as they are. */
function addedTokensOf(tokenizer: Tokenizer, unchanged: boolean): AddedToken[] {
  const tokens = [...tokenizer.get_added_tokens_decoder().values()].filter((token) => token.content !== "");
  // Those are looked for in what the others have left, which makes a difference where two overlap.
  const late = tokens.filter((token) => tokenizer.normalizer !== null && token.normalized);
  if (late.length > 0 && !unchanged) throw new Refusal("it looks for added tokens in normalised text");
  for (const one of tokens) {
    if (late.includes(one)) continue;
    if (late.some((other) => overlap(one.content, other.content))) {
      throw new Refusal("its added tokens overlap");
    }
  }
  const trims = tokens.some((token) => token.lstrip || token.rstrip);
  if (trims && tokens.some((token) => token.content.trim() !== token.content)) {
    throw new Refusal("its added tokens trim each other");
  }
  return tokens.map((token) => ({
    id: token.id,
    text: token.content,
    trimsBefore: token.lstrip,
    trimsAfter: token.rstrip,
  }));
}

/** True when a text can hold both so that they share characters. */
function overlap(a: string, b: string): boolean {
  if (a.includes(b) || b.includes(a)) return true;
  for (let length = 1; length < Math.min(a.length, b.length); length++) {
    if (a.endsWith(b.slice(0, length)) || b.endsWith(a.slice(0, length))) return true;
  }
  return false;
}

function coversAllBytes(model: BPE): boolean {
  if (!model.byte_fallback) return false;
  for (let byte = 0; byte < 256; byte++) {
    if (!model.tokens_to_ids.has(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)) return false;
  }
  return true;
}

/** Every two characters that stand side by side in the result of some merge. */
function joinedPairs(model: BPE): ReadonlySet<string> {
  const pairs = new Set<string>();
  for (const [left, right] of model.merges) {
    let before = "";
    for (const character of left + right) {
      if (before !== "") pairs.add(before + character);
      before = character;
    }
  }
  return pairs;
}

/** Cuts a text wherever two characters are never in one token: merges on both sides do not see each other. */
function cutBetween(text: string, joined: ReadonlySet<string>): string[] {
  const pieces: string[] = [];
  let piece = "";
  let before = "";
  for (const character of text) {
    if (piece !== "" && !joined.has(before + character)) {
      pieces.push(piece);
      piece = "";
    }
    piece += character;
    before = character;
  }
  if (piece !== "") pieces.push(piece);
  return pieces;
}
