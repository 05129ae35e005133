import { badRequest } from "../../../base/errors.ts";
import { shown } from "../gate/field_error.ts";
import type { HttpServices } from "../gate/services.ts";
import type { AgentSpec } from "./build_graph.ts";
import { within } from "./within.ts";

/** Throws 400 naming the field for early exit that names nobody, or that cannot be decided here. */
export function checkRequestedExit(
  http: HttpServices,
  specs: readonly AgentSpec[],
  ofAll: AgentSpec["earlyExit"],
): void {
  const agents = new Set(specs.map(({ id }) => id));
  const models = new Set(specs.map(({ model }) => model));
  const seen = new Set<AgentSpec["earlyExit"]>();
  for (const { earlyExit, field } of specs) {
    if (seen.has(earlyExit)) continue;
    seen.add(earlyExit);
    within(earlyExit === ofAll ? "" : field, () => {
      for (const [at, name] of earlyExit.never_skip.entries()) {
        const place = `early_exit.never_skip[${at}]`;
        if (agents.has(name) || models.has(name)) continue;
        throw badRequest(
          place,
          `${place} is ${shown(name)}: there is no such agent, and no agent of such a model`,
        );
      }
      const { model } = earlyExit.verdict;
      if (model !== undefined && http.models.get(model)?.config.served !== true) {
        throw badRequest(
          "early_exit.verdict.model",
          `early_exit.verdict.model is ${shown(model)}, which is not served`,
        );
      }
      http.moa.checkEarlyExit(earlyExit);
    });
  }
}
