import { badRequest } from "../../../base/errors.ts";
import type { Call } from "../gate/context.ts";
import { withBytes } from "../gate/read_request.ts";
import type { HttpServices } from "../gate/services.ts";
import { engineHeaders, engineModelsOnly, findTarget, queryOf, workerPath } from "./dispatch.ts";
import { serveEngine } from "./engine_model.ts";

/**
 * Relays a form (`multipart/form-data`, with a file) to the engine model that its field `model` names. Its bytes stay
 * as they came, unless the engine knows the model by another name.
 */
export function dispatchForm(http: HttpServices, call: Call): Promise<Response> {
  return withBytes(http, call, async ({ bytes, scope }) => {
    const headers = engineHeaders(call);
    const form = await readForm(bytes, headers["content-type"] ?? "");
    const named = form.get("model");
    const { path } = call.req;
    const target = findTarget(http, { model: typeof named === "string" ? named : null }, path);
    if ("graph" in target) throw engineModelsOnly(target.graph.name, path);
    const { model } = target;
    scope.model = model.name;
    const query = queryOf(call);
    const request = { model, path: workerPath(model, path), query, headers, bytes, body: {} };
    if (named === null || named === model.config.model) return await serveEngine(http, request, scope);
    form.set("model", model.config.model);
    const renamed = new Response(form);
    const formHeaders = { ...headers, "content-type": renamed.headers.get("content-type") ?? "" };
    const formBytes = new Uint8Array(await renamed.arrayBuffer());
    return await serveEngine(http, { ...request, headers: formHeaders, bytes: formBytes }, scope);
  });
}

/** Throws a 400 for what is no form. */
async function readForm(bytes: Uint8Array<ArrayBuffer>, contentType: string): Promise<FormData> {
  const wrong = "This route takes a form with a file: send content-type: multipart/form-data";
  if (!contentType.startsWith("multipart/form-data")) throw badRequest("content-type", wrong);
  try {
    return await new Response(bytes, { headers: { "content-type": contentType } }).formData();
  } catch {
    throw badRequest("body", "The body is not a form in the boundary that its content-type names");
  }
}
