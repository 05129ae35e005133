import type { Config } from "../../cfgs/schema/config.ts";
import type { EarlyExitServices } from "../moa/exit/exit_policies.ts";
import type { Fetches } from "../http/server/fetches.ts";
import { asCanopyError, errorResponse } from "../http/gate/errors.ts";
import type { PoolShare } from "../pool/pool_share.ts";
import { createRouter, type Router, type RouterOptions } from "../router.ts";
import type { FromServingThread, SharedModel, ToServingThread } from "./messages.ts";
import { PortHttp } from "./port_http.ts";
import { ThreadCells } from "./thread_cells.ts";

/** Options of a thread that serves, as it is sent them. */
export interface ServingOptions {
  /** Counts of all threads. */
  readonly memory: SharedArrayBuffer;
  /** Index of this one; 0 is the one that leads. */
  readonly thread: number;
  readonly threads: number;
  /** All models, as they are when it starts. */
  readonly models: readonly SharedModel[];
}

/** Options of `ServingRouter`. */
export interface ServingRouterOptions extends Omit<RouterOptions, "part" | "earlyExit">, ServingOptions {
  readonly earlyExit: EarlyExitServices;
  readonly post: (message: FromServingThread) => void;
}

/** Paths that the thread that leads answers: who is there, how all are, and what all have done. */
const LEADING_PATHS =
  /^\/(?:(?:workers|v1\/runs)(?:\/|$)|(?:(?:add|remove)_worker|list_workers|metrics|readiness|abort_request|v1\/config)\/?$)/;

/** True for a request that a thread which serves hands to the one that leads. */
export function isLeadingPath(url: string): boolean {
  const from = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.indexOf("?", from);
  const path = from < 0 ? "/" : url.slice(from, end < 0 ? undefined : end);
  if (!path.includes("%")) return LEADING_PATHS.test(path);
  try {
    return LEADING_PATHS.test(decodeURI(path));
  } catch {
    return false;
  }
}

/**
 * The router of one thread of several: it serves clients as a router alone does, and is told by the thread that leads
 * which workers there are and how they are.
 */
export class ServingRouter {
  readonly #options: ServingRouterOptions;
  readonly #router: Router;
  readonly #http: PortHttp;
  readonly #numbers = new Map<string, number>();

  constructor(options: ServingRouterOptions) {
    const { memory, thread, threads, models, post, ...rest } = options;
    this.#options = options;
    const onPass = () => post({ kind: "pass" });
    const cells = new ThreadCells(memory, { thread, threads, onPass });
    for (const { name, number } of models) this.#numbers.set(name, number);
    this.#router = createRouter({
      ...rest,
      config: withoutRecords(rest.config),
      part: {
        leads: false,
        shareOf: (model) => this.#shareOf(model, cells),
        admission: cells.admission,
        keyTable: cells.keys,
        front: (app) => this.#front(app),
        onRunEnded: (record) => post({ kind: "run", record }),
      },
    });
    const { app } = this.#router;
    this.#http = new PortHttp((message) => post({ kind: "http", message }), {
      fetch: (request, env) => app.fetch(request, { ...env, inner: true }),
    });
    for (const model of models) this.#follow(model);
  }

  /** Listens on the port that all threads share. Throws as `Router.listen` does. */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ url: string }> {
    return this.#router.listen({ ...address, sharesPort: true });
  }

  /** Goes on by another configuration, as `Router.reconfigure` does, with these models. */
  reconfigure(config: Config, models: readonly SharedModel[]): void {
    for (const { name, number } of models) this.#numbers.set(name, number);
    this.#router.reconfigure(withoutRecords(config));
    for (const model of models) this.#follow(model);
  }

  take(message: Exclude<ToServingThread, { kind: "scorer" | "audit" | "config" | "crash" }>): void {
    const { post } = this.#options;
    const { models, admission, counts } = this.#router.inside;
    const ended = async () => {
      await this.#options.spans?.close();
      post({ kind: "ended" });
    };
    switch (message.kind) {
      case "http":
        return this.#http.take(message.message);
      case "model":
        return this.#follow(message.model);
      case "wake":
        admission.wake();
        for (const { pool } of models.all.values()) pool.gate.wake();
        return;
      case "count":
        return post({ kind: "counts", request: message.request, counts: counts() });
      case "drain":
        return void this.#router.drain().finally(ended);
      case "close":
        return void this.#router.close().finally(ended);
    }
  }

  #follow({ name, number, config, members }: SharedModel): void {
    const { models } = this.#router.inside;
    this.#numbers.set(name, number);
    (models.all.get(name) ?? models.add(name, config)).follow(members);
  }

  #front(app: Fetches): Fetches {
    return {
      fetch: (request, env) => {
        if (!isLeadingPath(request.url)) return app.fetch(request, env);
        const { pathname } = new URL(request.url);
        return this.#http.fetch(request, env).catch((error) => errorResponse(asCanopyError(error), pathname));
      },
    };
  }

  #shareOf(model: string, cells: ThreadCells): PoolShare {
    const { post, thread } = this.#options;
    return {
      leads: false,
      thread,
      queue: cells.queue(this.#numbers.get(model) ?? 0),
      takeSlot: notHere,
      leaveSlot: notHere,
      worker: (slot) => cells.worker(slot),
      handOffs: (prefill, decode) => cells.handOffs(prefill, decode),
      changed: () => {},
      poke: (worker) => post({ kind: "poke", model, worker }),
    };
  }
}

/** The thread that leads keeps the records of runs. */
function withoutRecords(config: Config): Config {
  return { ...config, server: { ...config.server, max_runs_kept: 0 } };
}

function notHere(): never {
  throw new Error("Only the thread that leads adds and removes workers");
}
