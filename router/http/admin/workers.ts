import { Hono } from "hono";
import { z } from "zod";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import { hostnameOf, isListedHost, isLoopback } from "../../../base/hosts.ts";
import type { JsonObject } from "../../../base/json.ts";
import { parseBody, readBody, requireJson } from "../gate/body.ts";
import type { Call, Env } from "../gate/context.ts";
import { fieldError } from "../gate/fields.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { serverIdOf, type WorkerStatus } from "../../pool/worker.ts";
import type { PendingWorker } from "../../served/fleet.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { configuredUrls, plainUrl, shownUrl, workerAddress } from "../../worker/worker_access.ts";

/** A worker to add, in the names of SGLang's own gateways; their other fields are let through. */
const newWorkerSchema = z.looseObject({
  url: z.url({ protocol: /^https?$/ }).describe("Base URL of the server"),
  model: z.string().min(1).optional().describe(
    "The model that it serves; may be left out where there is one only",
  ),
  model_id: z.string().min(1).optional().describe("Another name of `model`"),
  worker_type: z.enum(["regular", "prefill", "decode"]).default("regular").describe("Its half of the work"),
  api_key: z.string().min(1).optional().describe("Bearer token for this worker only"),
  bootstrap_port: z.int().min(1).max(65_535).nullish().describe(
    "Port of a prefill server's bootstrap registry",
  ),
  bootstrap_host: z.string().min(1).nullish().describe(
    "Its name for decode servers, if not the one in its URL",
  ),
}).meta({ id: "NewWorker" });

type NewWorker = z.infer<typeof newWorkerSchema>;

/** A change to a worker. */
const workerChangeSchema = z.strictObject({
  draining: z.boolean().describe("true: no new work; false: work as before"),
}).meta({ id: "WorkerChange" });

interface Found {
  readonly model: ServedModel;
  readonly worker: WorkerStatus;
}

/** The workers of all models: looked at, added, drained and removed while the router runs. */
export function workerRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  routes.get(
    "/workers",
    guarded(http, "admin", { summary: "The state of every worker." }),
    (call) => call.json(workerList(http)),
  );
  olderWorkerRoutes(http, routes);
  routes.post(
    "/workers",
    guarded(http, "control", {
      summary: "Add a worker; its health is checked at once.",
      request: newWorkerSchema,
    }),
    async (call) => addWorker(http, call, await read(http, call, newWorkerSchema)),
  );
  routes.get(
    "/workers/:id{.+}",
    guarded(http, "admin", { summary: "The state of one worker, by id or URL." }),
    (call) => {
      const waiting = findPending(http, idOf(call));
      return call.json(waiting === undefined ? workerBody(find(http, idOf(call))) : pendingBody(waiting));
    },
  );
  routes.put(
    "/workers/:id{.+}",
    guarded(http, "control", {
      summary: "Let a worker finish what it has, or give it work again.",
      request: workerChangeSchema,
    }),
    (call) => changeWorker(http, call),
  );
  routes.delete(
    "/workers/:id{.+}",
    guarded(http, "control", { summary: "Remove a worker; what it is working on is not disturbed." }),
    (call) => removeWorker(http, call, idOf(call)),
  );
  return routes;
}

/** The same in the words of SGLang's routers before 0.3, which trainers still use. */
function olderWorkerRoutes(http: HttpServices, routes: Hono<Env>): void {
  routes.get(
    "/list_workers",
    guarded(http, "admin", { summary: "The URLs of all workers." }),
    (call) => call.json({ urls: workersOf(http).map(({ worker }) => shownUrl(worker)) }),
  );
  routes.post(
    "/add_worker",
    guarded(http, "control", {
      summary: "Add a worker, whose fields are parameters of the query.",
      query: Object.fromEntries(
        Object.entries(newWorkerSchema.shape).map(([name, field]) => [name, field.description ?? ""]),
      ),
    }),
    (call) => {
      const body = call.req.query();
      const parsed = newWorkerSchema.safeParse(body);
      if (!parsed.success) throw fieldError(parsed.error, body);
      return addWorker(http, call, parsed.data);
    },
  );
  routes.post(
    "/remove_worker",
    guarded(http, "control", { summary: "Remove a worker.", query: { url: "Its URL, or its id" } }),
    (call) => removeWorker(http, call, call.req.query("url") ?? ""),
  );
}

function removeWorker(http: HttpServices, call: Call, id: string): Response {
  const url = findPending(http, id)?.access.url;
  if (url !== undefined) {
    http.fleet?.remove(url);
    return call.json({ status: "accepted", worker_id: url, url }, 202);
  }
  const { model, worker } = find(http, id);
  model.membership.removeWorker(worker.id);
  return call.json({ status: "accepted", worker_id: worker.id, url: worker.url }, 202);
}

async function addWorker(http: HttpServices, call: Call, asked: NewWorker): Promise<Response> {
  const { worker_type: role } = asked;
  const address = workerAddress(asked.url);
  const { url } = address;
  const name = asked.model ?? asked.model_id;
  checkHosts(http, { url, bootstrap_host: asked.bootstrap_host ?? undefined });
  const access = {
    ...address,
    role: role === "regular" ? undefined : role,
    apiKey: asked.api_key,
    bootstrapPort: asked.bootstrap_port ?? undefined,
    bootstrapHost: asked.bootstrap_host ?? undefined,
  };
  const { fleet } = http;
  if (fleet === undefined) {
    const model = modelOf(http, name);
    const id = model.membership.addWorker({
      ...access,
      stranger: !configuredUrls(model.config).includes(url),
    });
    return accepted(call, { id, model: model.name, url });
  }
  // Whoever may add workers while there are keys knows the one that all workers get.
  const apiKey = asked.api_key ?? fleet.config.model.api_key;
  const joined = await fleet.add({ ...access, apiKey, stranger: true }, name);
  return accepted(call, { id: joined?.id ?? url, model: joined?.model.name ?? name ?? null, url });
}

function accepted(
  call: Call,
  { id, model, url }: { readonly id: string; readonly model: string | null; readonly url: string },
): Response {
  const location = `/workers/${encodeURIComponent(id)}`;
  return call.json({ status: "accepted", worker_id: id, model, url, location }, 202, { location });
}

/**
 * Under an admin key, or where hosts of workers are named, a worker may only be where an operator wants workers. Throws
 * `worker_host_refused` (403).
 */
function checkHosts(
  { config: { server, models } }: HttpServices,
  { url, bootstrap_host: registry }: { url: string; bootstrap_host: string | undefined },
): void {
  const keyless = server.admin_key === undefined && server.admin_keys.length === 0;
  if (keyless && server.worker_hosts.length === 0) return;
  const known = Object.values(models).flatMap((model) => configuredUrls(model).map(hostOfUrl));
  const hosts = { url: hostOfUrl(url), bootstrap_host: registry && hostnameOf(registry) };
  for (const [field, host] of Object.entries(hosts)) {
    if (field === "bootstrap_host" && registry === undefined) continue;
    if (host !== undefined && (isLoopback(host) || known.includes(host))) continue;
    if (host !== undefined && isListedHost(host, server.worker_hosts)) continue;
    const message = `${field} names the host ${JSON.stringify((host ?? "").slice(0, 100))}, ` +
      "which is neither this one nor that of a configured worker: list it in server.worker_hosts";
    throw new CanopyError(message, { code: "worker_host_refused", status: 403, param: field });
  }
}

function hostOfUrl(url: string): string | undefined {
  const parsed = URL.parse(url);
  return parsed === null ? undefined : hostnameOf(parsed.host);
}

async function changeWorker(http: HttpServices, call: Call): Promise<Response> {
  const id = idOf(call);
  const { model, worker } = find(http, id);
  const { draining } = await read(http, call, workerChangeSchema);
  const isRank = id === worker.id || id === shownUrl(worker);
  model.membership.setDraining(isRank ? worker.id : serverIdOf(worker), draining);
  return call.json(workerBody(find(http, idOf(call))));
}

async function read<Schema extends z.ZodType>(
  { config, clock }: HttpServices,
  { req: { raw } }: Call,
  schema: Schema,
): Promise<z.infer<Schema>> {
  requireJson(raw);
  const { signal } = raw;
  const bytes = await readBody(raw, { maxBytes: config.server.max_body_bytes, clock, signal });
  const body = await parseBody(bytes, { clock });
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  return parsed.data;
}

function workersOf({ models }: HttpServices): Found[] {
  return [...models.values()].flatMap((model) => model.pool.workers().map((worker) => ({ model, worker })));
}

/** All workers, in the form of SGLang's gateways. */
function workerList(http: HttpServices): JsonObject {
  const workers = [...workersOf(http).map(workerBody), ...(http.fleet?.pending ?? []).map(pendingBody)];
  const count = (type: string) => workers.filter((worker) => worker.worker_type === type).length;
  return {
    workers,
    total: workers.length,
    stats: {
      prefill_count: count("prefill"),
      decode_count: count("decode"),
      regular_count: count("regular"),
    },
  };
}

/** A worker in the names of SGLang's gateways, and behind those in ours. */
function workerBody({ model, worker }: Found): JsonObject {
  return {
    id: worker.id,
    url: shownUrl(worker),
    ...(worker.rank === undefined ? {} : { dp_rank: worker.rank.index, dp_size: worker.rank.of }),
    model_id: model.config.model,
    worker_type: worker.role ?? "regular",
    is_healthy: worker.health === "healthy",
    load: worker.inFlight,
    connection_mode: "HTTP",
    bootstrap_port: worker.bootstrapPort ?? null,
    model: model.name,
    engine: model.config.engine,
    health: worker.health,
    breaker: worker.breaker,
    in_flight: worker.inFlight,
    served: worker.served,
    failures: worker.failures,
    last_error: worker.lastError ?? null,
  };
}

/** A server that has not named its model yet. */
function pendingBody({ access, model, problem }: PendingWorker): JsonObject {
  return {
    id: access.url,
    url: access.url,
    model_id: model ?? null,
    worker_type: access.role ?? "regular",
    is_healthy: false,
    load: 0,
    connection_mode: "HTTP",
    bootstrap_port: access.bootstrapPort ?? null,
    model: model ?? null,
    engine: null,
    health: "unknown",
    breaker: "closed",
    in_flight: 0,
    served: 0,
    failures: 0,
    last_error: problem ?? null,
  };
}

function findPending(http: HttpServices, id: string): PendingWorker | undefined {
  const url = plainUrl(id);
  return http.fleet?.pending.find(({ access }) => access.url === url);
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

function idOf({ req }: Call): string {
  return req.param("id") ?? "";
}

/** The worker of that id or, as in SGLang's gateways, of that URL. */
function find(http: HttpServices, id: string): Found {
  const found = workersOf(http).find(({ worker }) =>
    worker.id === id || serverIdOf(worker) === id ||
    [id.replace(/\/+$/, ""), plainUrl(id)].some((url) => url === worker.url || url === shownUrl(worker))
  );
  if (found !== undefined) return found;
  throw new CanopyError(`There is no worker ${JSON.stringify(id.slice(0, 200))}: GET /workers lists them`, {
    code: "worker_not_found",
    status: 404,
    param: "id",
  });
}
