import type { HttpServices, Route } from "../gate/context.ts";
import { modelNotFound } from "../gate/find_model.ts";

/** The list of models: virtual ones first. */
export function modelRoutes(http: HttpServices): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/models",
      access: "api",
      handle: (call) => call.json({ object: "list", data: listModels(http) }),
      operation: { summary: "The models that are served, virtual ones first.", response: "ModelList" },
    },
    {
      method: "GET",
      path: "/v1/models/:id{.+}",
      access: "api",
      handle: (call) => {
        const id = call.req.param("id") ?? "";
        const model = listModels(http).find((one) => one.id === id);
        if (model === undefined) throw modelNotFound(id);
        return call.json(model);
      },
      operation: { summary: "One model; its id may contain slashes.", response: "Model" },
    },
  ];
}

interface ListedModel {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  /** As vLLM and SGLang give it: longest prompt plus answer, in tokens. */
  readonly max_model_len?: number;
}

function listModels(http: HttpServices): ListedModel[] {
  const common = { object: "model", created: http.startedAt } as const;
  const names = new Set(http.moa.graphs.keys());
  const list: ListedModel[] = [...names].map((id) => ({ id, ...common, owned_by: "canopy" }));
  for (const model of http.models.values()) {
    if (!model.config.served || names.has(model.name)) continue;
    const contextTokens = model.config.context_tokens ?? model.engine.capabilities.contextTokens;
    list.push({
      id: model.name,
      ...common,
      owned_by: model.config.engine,
      ...(contextTokens === undefined ? {} : { max_model_len: contextTokens }),
    });
  }
  return list;
}
