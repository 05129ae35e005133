import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { modelNotFound } from "../gate/find_model.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { modelCardSchema, modelListSchema } from "./response_schema.ts";

/** The list of models: virtual ones first. */
export function modelRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  routes.get(
    "/v1/models",
    guarded(http, "api", {
      summary: "The models that are served, virtual ones first.",
      response: modelListSchema,
    }),
    (call) => call.json({ object: "list", data: listModels(http) }),
  );
  routes.get(
    "/v1/models/:id{.+}",
    guarded(http, "api", {
      summary: "One model; its id may contain slashes.",
      response: modelCardSchema,
    }),
    (call) => {
      const id = call.req.param("id");
      const model = listModels(http).find((one) => one.id === id);
      if (model === undefined) throw modelNotFound(id);
      return call.json(model);
    },
  );
  return routes;
}

interface ListedModel {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  /** As vLLM and SGLang give it: longest prompt plus answer, in tokens. */
  readonly max_model_len?: number | undefined;
  /** What answers is a simulation: the engine, or one of a graph's. */
  readonly simulated?: true | undefined;
}

function listModels(http: HttpServices): ListedModel[] {
  const common = { object: "model", created: http.startedAt } as const;
  const names = new Set(http.moa.graphs.keys());
  const simulated = (name: string) => http.models.get(name)?.engine.capabilities.simulated;
  const list: ListedModel[] = [...http.moa.graphs].map(([id, { agents }]) => ({
    id,
    ...common,
    owned_by: "canopy",
    simulated: agents.some(({ model }) => simulated(model) === true) ? true : undefined,
  }));
  for (const model of http.models.values()) {
    if (!model.config.served || names.has(model.name)) continue;
    list.push({
      id: model.name,
      ...common,
      owned_by: model.config.engine,
      max_model_len: model.config.context_tokens ?? model.engine.capabilities.contextTokens,
      simulated: simulated(model.name),
    });
  }
  return list;
}
