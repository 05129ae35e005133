import { messageOf } from "../../../base/errors.ts";
import { prefilledModels, whyNotPrefilled } from "../../../cfgs/check/prefill.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { openModelFiles } from "../../../ml/hub/model_files.ts";
import { noTokenizerText, tokenizerSources } from "../../../router/served/find_tokenizer.ts";
import type { Io } from "../io.ts";

/** Models with a tokenizer to be found whose agents' prompts some graph wants to have prefilled ahead. */
export function modelsToPrefill(config: Config): string[] {
  const models = Object.keys(config.graphs).flatMap((name) => prefilledModels(config, name));
  return [...new Set(models)].filter((model) =>
    whyNotPrefilled(config, model) === undefined && config.models[model]?.engine !== "onnx"
  );
}

/**
 * One line for each model whose prompts will not be prefilled ahead unless its workers name a tokenizer: the
 * configuration's is not on this host, and cannot be fetched. Asks nobody.
 */
export async function prefillWarnings(config: Config, { env, transport, stop }: Io): Promise<string[]> {
  const warnings = await Promise.all(
    modelsToPrefill(config).map(async (name) => {
      const model = config.models[name];
      const reasons: string[] = [];
      for (const source of model === undefined ? [] : tokenizerSources(model, [])) {
        try {
          // Of what is neither here nor forbidden to fetch, nothing is asked.
          const files = await openModelFiles(source, { transport, signal: stop, env }, "tokenizer.json");
          if (!files.local || await files.size("tokenizer.json") !== undefined) return [];
          reasons.push(`${files.place} has no tokenizer.json`);
        } catch (error) {
          reasons.push(`of "${source}": ${messageOf(error)}`);
        }
      }
      const refusal = `${reasons.join("; ")}, unless its workers name one that can be had`;
      return reasons.length === 0 ? [] : [noTokenizerText(name, refusal)];
    }),
  );
  return warnings.flat();
}
