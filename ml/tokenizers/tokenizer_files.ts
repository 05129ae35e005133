import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { type ModelFiles, type ModelFilesOptions, openModelFiles } from "../hub/model_files.ts";

/** The parsed files of a tokenizer. */
export interface TokenizerFiles {
  /** `tokenizer.json` */
  readonly tokenizer: JsonObject;
  /** `tokenizer_config.json`; empty if there is none. */
  readonly config: JsonObject;
  /** `chat_template.jinja`, which comes before the config's `chat_template`. */
  readonly chatTemplate: string | undefined;
  /** The texts of both JSON files, read again; absent: the parsed ones are written. */
  readonly texts?: (() => Promise<{ tokenizer: string; config: string | undefined }>) | undefined;
}

/**
 * Finds a tokenizer's files: in a folder, in the Hub's cache on this machine, or on the Hub.
 * Throws 500 `tokenizer_unavailable`, saying where it looked.
 */
export async function loadTokenizerFiles(
  source: string,
  options: ModelFilesOptions,
): Promise<TokenizerFiles> {
  try {
    const files = await openModelFiles(source, options, "tokenizer.json");
    const tokenizer = await readJson(files, "tokenizer.json");
    if (tokenizer === undefined) throw new Error(`${files.place} has no tokenizer.json for it`);
    return {
      tokenizer,
      config: await readJson(files, "tokenizer_config.json") ?? {},
      chatTemplate: await files.read("chat_template.jinja") ?? await legacyTemplate(files),
      texts: async () => ({
        tokenizer: await files.read("tokenizer.json") ?? JSON.stringify(tokenizer),
        config: await files.read("tokenizer_config.json"),
      }),
    };
  } catch (cause) {
    throw new CanopyError(
      `Cannot load the tokenizer of "${source}": ${
        messageOf(cause)
      }; set \`tokenizer\` to a folder with its files, ` +
        "or to false",
      { code: "tokenizer_unavailable", status: 500, cause },
    );
  }
}

async function readJson(files: ModelFiles, name: string): Promise<JsonObject | undefined> {
  const text = await files.read(name);
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) throw new Error(`its ${name} is not a JSON object`);
  return value;
}

/** The template of some multimodal models, which have it in `chat_template.json`. */
async function legacyTemplate(files: ModelFiles): Promise<string | undefined> {
  const text = await files.read("chat_template.json");
  const value: unknown = text === undefined ? undefined : JSON.parse(text);
  return isJsonObject(value) && typeof value.chat_template === "string" ? value.chat_template : undefined;
}
