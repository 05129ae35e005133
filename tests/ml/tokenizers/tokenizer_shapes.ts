import { readFile } from "node:fs/promises";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import { HfTokenizer } from "../../../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import { BuiltinTokenizer } from "../../../simulator/text/tokenizer.ts";

/** A tokenizer with the files that it was made from. */
export interface Fixture {
  readonly name: string;
  readonly files: { readonly tokenizer: JsonObject; readonly config: JsonObject };
  readonly tokenizer: HfTokenizer;
}

/** `tiny-qwen3` or `tokenizers/tiny-llama`. */
export async function loadFixture(name: string): Promise<Fixture> {
  const folder = new URL(`../../fixtures/${name}/`, import.meta.url);
  const read = async (file: string): Promise<JsonObject> =>
    JSON.parse(await readFile(new URL(file, folder), "utf8"));
  const files = {
    tokenizer: await read("tokenizer.json"),
    config: await read("tokenizer_config.json"),
  };
  return { name, files, tokenizer: new HfTokenizer(name, { ...files, chatTemplate: undefined }) };
}

/** The same vocabulary with other rules. */
export function variant(of: Fixture, change: Partial<JsonObject>, config: JsonObject = {}): HfTokenizer {
  const tokenizer: JsonObject = { ...of.files.tokenizer };
  for (const [name, value] of Object.entries(change)) if (value !== undefined) tokenizer[name] = value;
  return new HfTokenizer(of.name, {
    tokenizer,
    config: { ...of.files.config, ...config },
    chatTemplate: undefined,
  });
}

const llama3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const o200k = [
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "\\p{N}{1,3}",
  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*",
  "\\s*[\\r\\n]+",
  "\\s+(?!\\S)",
  "\\s+",
].join("|");

const byteLevel: Json = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const splitBy = (pattern: JsonObject): Json => ({
  type: "Split",
  pattern,
  behavior: "Isolated",
  invert: false,
});
const sequence = (...pretokenizers: Json[]): Json => ({ type: "Sequence", pretokenizers });

function addedToken(id: number, content: string, more: JsonObject = {}): Json {
  return {
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: false,
    ...more,
  };
}

/** The shapes that tokenizers of language models have, on two small vocabularies. */
export async function shapes(): Promise<{ name: string; tokenizer: ModelTokenizer }[]> {
  const qwen = await loadFixture("tiny-qwen3");
  const llama = await loadFixture("tokenizers/tiny-llama");
  const qwenTokens = qwen.files.tokenizer["added_tokens"];
  const own = Array.isArray(qwenTokens) ? qwenTokens : [];
  return [
    { name: "the simulator's own", tokenizer: new BuiltinTokenizer() },
    { name: "Qwen (NFC, its pattern)", tokenizer: qwen.tokenizer },
    {
      name: "GPT-2 (byte level with its own pattern)",
      tokenizer: variant(qwen, {
        normalizer: null,
        pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
      }),
    },
    {
      name: "Llama 3 (numbers of three digits, whole pieces looked up)",
      tokenizer: variant(qwen, {
        normalizer: null,
        pre_tokenizer: sequence(splitBy({ Regex: llama3 }), byteLevel),
        model: { ...(qwen.files.tokenizer["model"] as JsonObject), ignore_merges: true },
      }),
    },
    {
      name: "o200k (case and marks, contractions with their word)",
      tokenizer: variant(qwen, {
        normalizer: { type: "NFC" },
        pre_tokenizer: sequence(splitBy({ Regex: o200k }), byteLevel),
      }),
    },
    {
      name: "DeepSeek (three splits, added tokens found late)",
      tokenizer: variant(qwen, {
        normalizer: { type: "Sequence", normalizers: [] },
        pre_tokenizer: sequence(
          splitBy({ Regex: "\\p{N}{1,3}" }),
          splitBy({ Regex: "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+" }),
          splitBy({
            Regex: "[!-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
              "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
          }),
          byteLevel,
        ),
        added_tokens: [...own, addedToken(1920, "\uff5cplace\u2581holder\uff5c", { normalized: true })],
      }),
    },
    {
      name: "added tokens that trim, begin alike and stand in each other, NFKC",
      tokenizer: variant(qwen, {
        normalizer: { type: "NFKC" },
        added_tokens: [
          ...own,
          addedToken(1920, "<mask>", { lstrip: true }),
          addedToken(1921, "<cut>", { rstrip: true }),
          addedToken(1922, "<a", {}),
          addedToken(1923, "<a><b>", {}),
          addedToken(1924, "<|im", {}),
        ],
      }),
    },
    { name: "SentencePiece (prefix in front of every section, byte fallback)", tokenizer: llama.tokenizer },
    {
      name: "Metaspace, prefix in front of the first section",
      tokenizer: variant(llama, {
        normalizer: null,
        pre_tokenizer: { type: "Metaspace", replacement: "\u2581", prepend_scheme: "first", split: false },
      }),
    },
    {
      name: "Gemma (spaces replaced, then split at spaces)",
      tokenizer: variant(llama, {
        normalizer: { type: "Replace", pattern: { String: " " }, content: "\u2581" },
        pre_tokenizer: {
          type: "Split",
          pattern: { String: " " },
          behavior: "MergedWithPrevious",
          invert: false,
        },
      }),
    },
  ];
}

const fragments = [
  ...[
    "We",
    " think",
    " that",
    " the",
    " answer",
    " is",
    " forty",
    "-two",
    "The",
    " quick",
    " brown",
    " fox",
    ".",
  ],
  ...[
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    " \n",
    "\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "\u2009",
    "\u0085",
    "\ufeff",
    "\u2028",
  ],
  ...[
    "'",
    "'s",
    "'l",
    "l",
    "'re",
    "I'",
    "LL",
    "x=",
    "12",
    "345",
    "6",
    "3.14",
    "1,000",
    "!!",
    "??!",
    "(a)",
    "{}",
    "/*",
    "//",
  ],
  ...[
    "```",
    "- ",
    "# ",
    "**",
    "a.b",
    "http://x.y",
    "é",
    "e\u0301",
    "\u0301",
    "\u0323",
    "\u0308",
    "A\u030a",
    "ﬁ",
    "ß",
  ],
  ...[
    "你",
    "好",
    "世界",
    "我们认为",
    "答案",
    "。",
    ",",
    "テスト",
    "が",
    "か\u3099",
    "ｶ",
    "ﾞ",
    "\uffc2",
    "한국",
    "\u1112",
    "\u1161",
    "\u11ab",
  ],
  ...[
    "नमस्ते",
    "दु",
    "\u093f",
    "\u09be",
    "\u09c7",
    "ก็",
    "😀",
    "👨\u200d👩",
    "\ud83d",
    "\ude00",
    "𝒳",
    "\u{16d63}",
    "\u{16d67}",
  ],
  ...[
    "<|im_start|>",
    "<|im_end|>",
    "<|im",
    "_end|>",
    "<",
    "<|",
    "|>",
    "<think>",
    "</think>",
    "</th",
    "ink>",
    "<tool_call>",
  ],
  ...[
    "<mask>",
    "<cut>",
    "<a",
    "><b>",
    "<a><b",
    "<a>",
    "[INST]",
    "[/INST]",
    "[",
    "/INST]",
    "<s>",
    "</s>",
    "\u2581",
    "\u2581the",
    "\uff5c",
  ],
  ...[
    "aaaaaaaaaaaaaaaaaaaa",
    "0".repeat(25),
    "zqxjkvb",
    "=".repeat(13),
    "the the the",
    "Wir denken, dass",
    "Мы думаем",
    "l'été",
  ],
];

/** A text that mixes languages, white space, marks, halves of characters and pieces of added tokens. */
export function randomText(random: Random, parts: number): string {
  let text = "";
  for (let i = 0; i < parts; i++) {
    text += random.int(12) === 0 ? String.fromCodePoint(random.int(0xd7ff) + 1) : random.pick(fragments);
  }
  return text;
}
