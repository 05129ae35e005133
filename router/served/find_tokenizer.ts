import { hostname } from "node:os";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { isLoopback } from "../../base/hosts.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { isHubId } from "../../ml/hub/cache.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { askTokens } from "./ask_tokens.ts";

/** A worker and the names that it gives its tokenizer: folders on its host, or Hub ids, best first. */
export interface TokenizerNames {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly names: readonly string[];
}

/** Options of `findTokenizer`. */
export interface FindTokenizerOptions {
  readonly config: ModelConfig;
  /** Workers that were asked. */
  readonly workers: readonly TokenizerNames[];
  readonly load: (source: string) => Promise<ModelTokenizer>;
  readonly clock: Clock;
  readonly transport: Transport;
  readonly signal: AbortSignal;
}

/**
 * A model's tokenizer and where it is from, or the reason why there is none, as the end of a sentence. `tells`: the URL
 * of a worker that tokenises conversations when it is asked.
 */
export type FoundTokenizer =
  | { readonly tokenizer: ModelTokenizer; readonly source: string }
  | { readonly refusal: string; readonly tells: string | undefined };

/** Cases in which vocabularies, pre-tokenisers and normalisers differ. */
const SAMPLE =
  "Canopy asks: 12345 apples don't na\u00efvely fall\n\n  from tr\u00e9es, \u4f60\u597d \u{1f600}?";

/** The line that says that a model has no tokenizer, what that means, and what to do. `tells` as in `FoundTokenizer`. */
export function noTokenizerText(model: string, refusal: string, tells?: string): string {
  const then = tells === undefined
    ? "its agents' prompts are not prefilled ahead and the engine applies its own chat template"
    : `${tells}/tokenize is asked, which costs that server some time, and prompts are not fitted to its context`;
  return `models.${model}: no tokenizer, so ${then}, and answers that break off begin anew: ${refusal}; set models.${model}.tokenizer to a folder or Hub id, ` +
    "or to false if that is meant";
}

/** True for a model whose engine takes token ids, unless its configuration wants no tokenizer. */
export function wantsTokenizer({ engine, tokenizer }: Pick<ModelConfig, "engine" | "tokenizer">): boolean {
  return engine !== "openai" && tokenizer !== false;
}

/**
 * Names of a model's tokenizer, best first: the configured one alone; else what the workers say, and what the
 * configuration says of the model itself. A folder that a worker names counts only where it runs on this host.
 */
export function tokenizerSources(config: ModelConfig, workers: readonly TokenizerNames[]): string[] {
  if (!wantsTokenizer(config)) return [];
  if (typeof config.tokenizer === "string") return [config.tokenizer];
  const named = workers.flatMap(({ url, names }) =>
    names.filter((name) => isOurs(name) || isHubName(name) || isOnThisHost(url))
  );
  const own = [config.launch?.weights, config.model].filter((source) => source !== undefined);
  return [...new Set([...named, ...own])];
}

/**
 * Loads a model's tokenizer from the first of its sources that has it. One that was not configured is compared with the
 * workers' own, where they tell: prompts must mean to the engine what they mean here.
 */
export async function findTokenizer(options: FindTokenizerOptions): Promise<FoundTokenizer> {
  const { config, workers, load, signal } = options;
  const reasons: string[] = [];
  for (const source of tokenizerSources(config, workers)) {
    try {
      const tokenizer = await load(source);
      signal.throwIfAborted();
      const mismatch = typeof config.tokenizer === "string"
        ? undefined
        : unusable(tokenizer, config) ?? await differs(tokenizer, options);
      if (mismatch === undefined) return { tokenizer, source };
      reasons.push(`that of "${source}" ${mismatch}`);
    } catch (error) {
      signal.throwIfAborted();
      reasons.push(messageOf(error).replace(/; set `tokenizer` to .*$/s, ""));
    }
  }
  return {
    refusal: reasons.join("; ") || "its tokenizer has no name",
    tells: await whoTells(options),
  };
}

/** The first worker that tokenises a conversation. */
async function whoTells({ workers, ...options }: FindTokenizerOptions): Promise<string | undefined> {
  for (const worker of workers) {
    const ids = await askTokens([{ role: "user", content: SAMPLE }], { ...options, worker });
    if (ids !== undefined && ids.length > 0) return worker.url;
  }
  return undefined;
}

/** True for the names under which simulated servers tell of tokenizers that need no files. */
function isOurs(name: string): boolean {
  return name.startsWith("canopy:");
}

function isHubName(name: string): boolean {
  return /^[^/]+\/[^/]+$/.test(name) && isHubId(name);
}

function isOnThisHost(url: string): boolean {
  const host = new URL(url).hostname;
  return isLoopback(host) || host === hostname().toLowerCase();
}

/** What is wrong with a tokenizer by itself: a chat template that cannot be rendered here would fail each request. */
function unusable(tokenizer: ModelTokenizer, config: ModelConfig): string | undefined {
  try {
    rendered(tokenizer, config);
    return undefined;
  } catch (error) {
    return `has a chat template that cannot be used here (${messageOf(error)})`;
  }
}

function rendered(tokenizer: ModelTokenizer, config: ModelConfig): string | undefined {
  return tokenizer.hasChatTemplate
    ? tokenizer.renderChat([{ role: "user", content: SAMPLE }], {
      templateArguments: config.chat_template_arguments,
    })
    : undefined;
}

/** What differs between a tokenizer and the workers' own; undefined where nothing does, or where they do not tell. */
async function differs(
  tokenizer: ModelTokenizer,
  options: FindTokenizerOptions,
): Promise<string | undefined> {
  const { config, workers: [worker] } = options;
  if (worker === undefined) return undefined;
  const text = await askTokens(SAMPLE, { ...options, worker });
  const own = tokenizer.encode(SAMPLE);
  // Some servers put their first token in front, whatever they are asked.
  const begun = [...tokenizer.textPrefix ?? [], ...own];
  if (text !== undefined && text.join() !== own.join() && text.join() !== begun.join()) {
    return `is not the one of ${worker.url}`;
  }
  const chat = rendered(tokenizer, config);
  // Whether SGLang's takes arguments of the template depends on its version.
  const tells = config.engine.startsWith("vllm") || Object.keys(config.chat_template_arguments).length === 0;
  if (!tells || chat === undefined) return undefined;
  const ids = await askTokens([{ role: "user", content: SAMPLE }], { ...options, worker });
  return ids === undefined || ids.join() === tokenizer.encode(chat).join()
    ? undefined
    : `has another chat template than ${worker.url}`;
}
