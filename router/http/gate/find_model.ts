import { CanopyError } from "../../../base/errors.ts";
import type { HttpServices } from "./services.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** The engine model that is served, if there is only one. */
export function onlyServedModel(http: HttpServices): ServedModel | undefined {
  const served = [...http.models.values()].filter((model) => model.config.served);
  return served.length === 1 ? served[0] : undefined;
}

/** A served engine model by its listed name, or by the engine's own name if only one has it. */
export function findServedModel(http: HttpServices, name: string): ServedModel | undefined {
  const listed = http.models.get(name);
  if (listed?.config.served === true) return listed;
  const sameName = [...http.models.values()].filter(({ config }) => config.served && config.model === name);
  return sameName.length === 1 ? sameName[0] : undefined;
}

export function modelNotFound(name: string): CanopyError {
  const shown = JSON.stringify(name.slice(0, 100));
  return new CanopyError(`The model ${shown} does not exist here: GET /v1/models lists those that do`, {
    code: "model_not_found",
    status: 404,
    param: "model",
    type: "invalid_request_error",
  });
}
