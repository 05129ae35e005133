import { messageOf } from "../../../base/errors.ts";
import { prefilledModels, whyNotPrefilled } from "../../../cfgs/check/prefill.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { openModelFiles } from "../../../ml/hub/model_files.ts";
import { tokenizerSources } from "../../../router/served/find_tokenizer.ts";
import type { Io } from "../io.ts";

/** Models with a tokenizer to be found whose agents' prompts some graph wants to have prefilled ahead. */
export function modelsToPrefill(config: Config): string[] {
  const models = Object.keys(config.graphs).flatMap((name) => prefilledModels(config, name));
  return [...new Set(models)].filter((model) =>
    whyNotPrefilled(config, model) === undefined && config.models[model]?.engine !== "onnx"
  );
}

/**
 * One line about the models whose prompts will not be prefilled ahead unless their workers help: the tokenizer that the
 * configuration names is not on this host, and cannot be fetched. Asks nobody.
 */
export async function prefillWarnings(config: Config, { env, transport, stop }: Io): Promise<string[]> {
  const missing = await Promise.all(
    modelsToPrefill(config).map(async (name) => {
      const model = config.models[name];
      const reasons: { readonly source: string; readonly reason: string }[] = [];
      for (const source of model === undefined ? [] : tokenizerSources(model, [])) {
        try {
          // Of what is neither here nor forbidden to fetch, nothing is asked.
          const files = await openModelFiles(source, { transport, signal: stop, env }, "tokenizer.json");
          if (!files.local || await files.size("tokenizer.json") !== undefined) return [];
          reasons.push({ source, reason: `${files.place} has no tokenizer.json` });
        } catch (error) {
          reasons.push({ source, reason: messageOf(error) });
        }
      }
      return reasons.map((reason) => ({ ...reason, name }));
    }),
  );
  const groups = Map.groupBy(missing.flat(), ({ reason }) => reason);
  return [...groups].map(([reason, models]) => {
    const names = [...new Set(models.map(({ name }) => `models.${name}`))];
    const sources = models.map(({ source }) => `"${source}"`).join(", ");
    return `${
      names.join(", ")
    }: no tokenizer on this host (${sources}: ${reason}): unless the workers name one that ` +
      "can be had, answers that break off begin anew, and unless they tokenise when they are asked (/tokenize), " +
      `prompts are not prefilled ahead; set ${
        names[0]
      }.tokenizer to a folder or Hub id, or to false if that is meant`;
  });
}
