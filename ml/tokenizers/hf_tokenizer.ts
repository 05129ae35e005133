import { Template } from "@huggingface/jinja";
import { BPE, Tokenizer } from "@huggingface/tokenizers";
import type { Clock } from "../../base/clock.ts";
import { badRequest, CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { ModelFilesOptions } from "../hub/model_files.ts";
import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import { ControlTokens, nextMark, withGaps } from "./control_tokens.ts";
import { startEncoderThread } from "./encoder_thread.ts";
import { EncoderThreads } from "./encoder_threads.ts";
import { maxTokenBytesOf, type StreamedFiles, streamingOf } from "./hf_streaming.ts";
import { mergeLongPiecesFast } from "./long_bpe.ts";
import type { LongTexts } from "./long_texts.ts";
import type { ModelControlTokens, ModelTokenizer } from "./model_tokenizer.ts";
import type { Streaming } from "./token_stream.ts";
import { loadTokenizerFiles, type TokenizerFiles } from "./tokenizer_files.ts";

/**
 * The tokenizer of a model, from a local folder or by its Hub id.
 * Throws 500 `tokenizer_unavailable` when its files cannot be had, `tokenizer_unsupported` when they are not understood.
 */
export async function loadTokenizer(
  source: string,
  { clock, ...options }: LoadTokenizerOptions,
): Promise<ModelTokenizer> {
  return new HfTokenizer(source, await loadTokenizerFiles(source, options), clock);
}

/** Options of `loadTokenizer`. */
export interface LoadTokenizerOptions extends ModelFilesOptions {
  /** With it, long texts are encoded in threads. */
  readonly clock?: Clock | undefined;
}

/** A tokenizer in the format of Hugging Face's `tokenizer.json`. */
export class HfTokenizer implements ModelTokenizer {
  readonly vocabSize: number;
  readonly longTexts: LongTexts | undefined;
  readonly #tokenizer: Tokenizer;
  readonly #template: Template | undefined;
  readonly #specialTokens: JsonObject;
  readonly #streamed: StreamedFiles;
  #streaming: Streaming | undefined;
  #textPrefix: readonly number[] | undefined;
  #control: ModelControlTokens | undefined;
  #maxTokenBytes: number | "unknown" | undefined;
  readonly #templateText: string;

  /** `clock`: with it, long texts are encoded in threads. */
  constructor(source: string, files: TokenizerFiles, clock?: Clock) {
    try {
      this.#tokenizer = new Tokenizer(files.tokenizer, files.config);
      if (this.#tokenizer.model instanceof BPE) mergeLongPiecesFast(this.#tokenizer.model);
      this.vocabSize = vocabSizeOf(this.#tokenizer);
      const template = files.chatTemplate ?? templateOf(files.config);
      this.#templateText = template ?? "";
      this.#template = template === undefined ? undefined : new Template(template);
    } catch (cause) {
      throw new CanopyError(
        `Cannot use the tokenizer of "${source}": ${
          messageOf(cause)
        }; set \`tokenizer\` to false to let the engine apply its own`,
        { code: "tokenizer_unsupported", status: 500, cause },
      );
    }
    this.#specialTokens = specialTokensOf(files.config);
    this.#streamed = {
      normalizer: files.tokenizer["normalizer"],
      preTokenizer: files.tokenizer["pre_tokenizer"],
      config: files.config,
    };
    const texts = files.texts ?? (() =>
      Promise.resolve({
        tokenizer: JSON.stringify(files.tokenizer),
        config: JSON.stringify(files.config),
      }));
    const chatTemplate = this.#template && this.#templateText;
    const readTexts = async () => ({ source, chatTemplate, ...await texts() });
    this.longTexts = clock === undefined
      ? undefined
      : new EncoderThreads({ files: readTexts, start: startEncoderThread, clock });
  }

  get maxTokenBytes(): number | undefined {
    this.#maxTokenBytes ??= maxTokenBytesOf(this.#tokenizer, this.#streamed) ?? "unknown";
    return this.#maxTokenBytes === "unknown" ? undefined : this.#maxTokenBytes;
  }

  get control(): ModelControlTokens {
    return this.#control ??= controlTokensOf(this.#tokenizer, this.#templateText);
  }

  get streaming(): Streaming {
    return this.#streaming ??= streamingOf(this.#tokenizer, this.#streamed);
  }

  encode(text: string, { marked = false }: { readonly marked?: boolean | undefined } = {}): number[] {
    if (!marked || nextMark(text, 0) === text.length) {
      return this.#tokenizer.encode(text, { add_special_tokens: false }).ids;
    }
    if ("refusal" in this.streaming) return this.encode(withGaps(text));
    const stream = this.streaming.open({ marked });
    stream.append(text);
    return stream.complete();
  }

  get textPrefix(): readonly number[] {
    return this.#textPrefix ??= prefixOf(this.#tokenizer);
  }

  decode(ids: readonly number[], options: { skipSpecialTokens?: boolean } = {}): string {
    if (ids.length === 0) return "";
    return this.#tokenizer.decode([...ids], {
      skip_special_tokens: options.skipSpecialTokens ?? false,
      clean_up_tokenization_spaces: false,
    });
  }

  get hasChatTemplate(): boolean {
    return this.#template !== undefined;
  }

  renderChat(
    messages: readonly ChatMessage[],
    options: RenderOptions = {},
  ): string {
    if (this.#template === undefined) {
      throw new CanopyError("Cannot render the conversation: the model has no chat template", {
        code: "no_chat_template",
        status: 500,
      });
    }
    try {
      return this.#template.render({
        ...this.#specialTokens,
        add_generation_prompt: true,
        ...options.templateArguments,
        messages: [...messages],
      });
    } catch (cause) {
      throw badRequest(
        "messages",
        `The model's chat template refuses the conversation: ${messageOf(cause)}`,
        "invalid_messages",
      );
    }
  }
}

/** A tokenizer may have added tokens that are text (line ends, HTML tags): those are no control tokens. */
function controlTokensOf(tokenizer: Tokenizer, template: string): ModelControlTokens {
  const tokens = [...tokenizer.get_added_tokens_decoder().values()].filter(({ content }) =>
    content.trim() !== ""
  );
  const special = tokens.filter((token) => token.special);
  const spoken = tokens.filter((token) => token.special || template.includes(token.content));
  return {
    all: new ControlTokens(spoken.map(({ content }) => content)),
    special: new ControlTokens(special.map(({ content }) => content)),
  };
}

/** The special tokens that a tokenizer adds in front of a text. */
function prefixOf(tokenizer: Tokenizer): number[] {
  const { ids } = tokenizer.encode("a", { add_special_tokens: true });
  const own = tokenizer.encode("a", { add_special_tokens: false }).ids;
  const at = ids.findIndex((_, begin) => own.every((id, index) => ids[begin + index] === id));
  return ids.slice(0, Math.max(0, at));
}

function vocabSizeOf(tokenizer: Tokenizer): number {
  let largest = -1;
  for (const id of tokenizer.get_vocab(true).values()) largest = Math.max(largest, id);
  for (const id of tokenizer.get_added_tokens_decoder().keys()) largest = Math.max(largest, id);
  return largest + 1;
}

/** `chat_template` as a string, or the one named `default` of a list. */
function templateOf(config: JsonObject): string | undefined {
  const value = config.chat_template;
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return undefined;
  const list = value.filter(isJsonObject);
  const chosen = (list.find((item) => item.name === "default") ?? list[0])?.template;
  return typeof chosen === "string" ? chosen : undefined;
}

/** `bos_token` and its like, which templates refer to by name. */
function specialTokensOf(config: JsonObject): JsonObject {
  const tokens: JsonObject = {};
  for (const [name, value] of Object.entries(config)) {
    if (!/^(bos|eos|pad|unk|sep|cls|mask)_token$/.test(name)) continue;
    const content = isJsonObject(value) ? value.content : value;
    if (typeof content === "string") tokens[name] = content;
  }
  return tokens;
}
