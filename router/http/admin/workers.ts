import { badRequest, CanopyError } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import { newWorkerSchema, workerChangeSchema } from "./worker_schema.ts";
import { parseJsonObject, readBody } from "../gate/body.ts";
import type { Call, HttpServices, Route } from "../gate/context.ts";
import { fieldError } from "../gate/field_error.ts";
import type { WorkerStatus } from "../../pool/pool_types.ts";
import type { ServedModel } from "../../served/served_model.ts";
import type { WorkerAccess } from "../../worker/worker_access.ts";

interface Found {
  readonly model: ServedModel;
  readonly worker: WorkerStatus;
}

/** The workers of all models: looked at, added, drained and removed while the router runs. */
export function workerRoutes(http: HttpServices): Route[] {
  const read = async ({ req: { raw } }: Call) =>
    parseJsonObject(await readBody(raw, http.config.server.max_body_bytes, raw.signal));
  return [
    {
      method: "GET",
      path: "/workers",
      access: "admin",
      handle: (call) =>
        call.json({
          object: "list",
          data: [...http.models.values()].flatMap((model) =>
            model.pool.workers().map((worker) => workerBody({ model, worker }))
          ),
        }),
      operation: { summary: "The state of every worker." },
    },
    {
      method: "POST",
      path: "/workers",
      access: "control",
      handle: async (call) => {
        const body = await read(call);
        const parsed = newWorkerSchema.safeParse(body);
        if (!parsed.success) throw fieldError(parsed.error, body);
        const { url, worker_type, api_key, bootstrap_port, bootstrap_host } = parsed.data;
        const model = modelOf(http, parsed.data.model ?? parsed.data.model_id);
        const access: WorkerAccess = {
          url: url.replace(/\/+$/, ""),
          ...(worker_type === "regular" ? {} : { role: worker_type }),
          ...(api_key === undefined ? {} : { apiKey: api_key }),
          ...(typeof bootstrap_port === "number" ? { bootstrapPort: bootstrap_port } : {}),
          ...(typeof bootstrap_host === "string" ? { bootstrapHost: bootstrap_host } : {}),
        };
        const id = model.membership.addWorker(access);
        const location = `/workers/${encodeURIComponent(id)}`;
        return call.json(
          { status: "accepted", worker_id: id, model: model.name, url: access.url, location },
          202,
          {
            location,
          },
        );
      },
      operation: { summary: "Add a worker; its health is checked at once.", request: "NewWorker" },
    },
    {
      method: "GET",
      path: "/workers/:id{.+}",
      access: "admin",
      handle: (call) => call.json(workerBody(find(http, call))),
      operation: { summary: "The state of one worker, by id or URL." },
    },
    {
      method: "PUT",
      path: "/workers/:id{.+}",
      access: "control",
      handle: async (call) => {
        const { model, worker } = find(http, call);
        const body = await read(call);
        const parsed = workerChangeSchema.safeParse(body);
        if (!parsed.success) throw fieldError(parsed.error, body);
        model.membership.setDraining(worker.id, parsed.data.draining);
        return call.json(workerBody(find(http, call)));
      },
      operation: {
        summary: "Let a worker finish what it has, or give it work again.",
        request: "WorkerChange",
      },
    },
    {
      method: "DELETE",
      path: "/workers/:id{.+}",
      access: "control",
      handle: (call) => {
        const { model, worker } = find(http, call);
        model.membership.removeWorker(worker.id);
        return call.json({ status: "accepted", worker_id: worker.id, url: worker.url }, 202);
      },
      operation: { summary: "Remove a worker; what it is working on is not disturbed." },
    },
  ];
}

function workerBody({ model, worker }: Found): JsonObject {
  return {
    id: worker.id,
    model: model.name,
    engine: model.config.engine,
    url: worker.url,
    worker_type: worker.role ?? "regular",
    health: worker.health,
    breaker: worker.breaker,
    in_flight: worker.inFlight,
    served: worker.served,
    failures: worker.failures,
    last_error: worker.lastError ?? null,
  };
}

function modelOf({ models }: HttpServices, name: string | undefined): ServedModel {
  const all = [...models.values()];
  const [only] = all;
  if (name === undefined) {
    if (only !== undefined && all.length === 1) return only;
    throw badRequest("model", `model is required: name one of ${names(all)}`, "missing_field");
  }
  const model = models.get(name) ?? all.find((other) => other.config.model === name);
  if (model !== undefined) return model;
  throw new CanopyError(
    `There is no model ${JSON.stringify(name.slice(0, 100))}: name one of ${names(all)}`,
    {
      code: "model_not_found",
      status: 404,
      param: "model",
    },
  );
}

function names(models: readonly ServedModel[]): string {
  return models.map((model) => model.name).join(", ");
}

/** The worker of that id or, as in SGLang's gateways, of that URL. */
function find({ models }: HttpServices, call: Call): Found {
  const id = call.req.param("id") ?? "";
  const plain = (url: string) => url.replace(/\/+$/, "");
  for (const model of models.values()) {
    for (const worker of model.pool.workers()) {
      if (worker.id === id || plain(worker.url) === plain(id)) return { model, worker };
    }
  }
  throw new CanopyError(`There is no worker ${JSON.stringify(id.slice(0, 200))}: GET /workers lists them`, {
    code: "worker_not_found",
    status: 404,
    param: "id",
  });
}
