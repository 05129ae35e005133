import { CanopyError, messageOf } from "../../../base/errors.ts";
import { claimPort } from "../../../router/http/server/claim_port.ts";
import {
  LeadingRouter,
  type PostToThread,
  type ScorerMessage,
} from "../../../router/threads/leading_router.ts";
import type { Router, RouterOptions } from "../../../router/router.ts";
import type { Scorer } from "../../../scorer/scorer.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import type { FromScorerThread } from "../../../scorer/thread/worker_thread.ts";
import { serveScorer, type ToScorer } from "../../../scorer/thread/serve_scorer.ts";
import { makeScorer, type ScorerMeans } from "./make_early_exit.ts";
import { startServingThread } from "./serving_thread.ts";

/** Options of `ThreadedRouter`. */
export interface ThreadedRouterOptions extends Omit<RouterOptions, "part"> {
  readonly threads: number;
  readonly address: { readonly host: string; readonly port: number };
  readonly means: ScorerMeans;
}

/** A router whose clients are served by several threads, with one scorer for all of them. */
export class ThreadedRouter {
  readonly #options: ThreadedRouterOptions;
  readonly #leading: LeadingRouter;
  #scorer: Promise<Scorer> | undefined;
  /** The scorer as each thread uses it. */
  readonly #uses = new Map<number, (message: ToScorer) => void>();

  constructor(options: ThreadedRouterOptions) {
    this.#options = options;
    this.#leading = new LeadingRouter({
      ...options,
      start: ({ config, ...serving }, address, events) =>
        startServingThread({ config, options: serving, address }, events),
      scorer: (thread, message, post) => this.#take(thread, message, post),
      scorerLeft: (thread) => this.#leave(thread),
    });
  }

  /** The router with its threads in the place of its own server. */
  get router(): Router {
    const leading = this.#leading;
    return {
      ...leading.router,
      reconfigure: (config) => leading.reconfigure(config),
      drain: () => leading.drain(),
      close: async () => {
        await leading.close();
        await (await this.#scorer?.catch(() => undefined))?.close();
      },
    };
  }

  /** Listens with all threads. Throws `CanopyError` (500) when somebody else does. */
  async listen(): Promise<{ url: string }> {
    return await this.#leading.start(await claimPort(this.#options.address));
  }

  /** Has a thread throw where nobody catches it, for tests. False when there is none of that index, from 1. */
  crash(thread: number): boolean {
    return this.#leading.crash(thread);
  }

  #take(thread: number, message: ScorerMessage, post: PostToThread): void {
    if (message.kind === "scorer") {
      const { message: inner } = message;
      if (inner.kind !== "answered" && inner.kind !== "unanswered") this.#uses.get(thread)?.(inner);
      return;
    }
    const { config, means } = this.#options;
    this.#scorer ??= makeScorer(config.scorer, means);
    // The threads ask again for one that could not be made.
    this.#scorer.catch(() => this.#scorer = undefined);
    const say = (answer: FromScorerThread) => post({ kind: "scorer", message: answer });
    const use = this.#scorer.then(async (scorer) => {
      if (scorer instanceof WorkerScorer) await scorer.ready();
      const { facts } = scorer;
      if (facts !== undefined) say({ kind: "ready", facts });
      return serveScorer(scorer, say, `${thread}/`);
    });
    use.catch((error) => {
      const { code, status } = CanopyError.is(error) ? error : { code: "scorer_failed", status: 500 };
      say({ kind: "failed", reason: messageOf(error), code, status });
    });
    this.#uses.set(thread, (inner) => void use.then((serve) => serve(inner), () => {}));
  }

  #leave(thread: number): void {
    this.#uses.get(thread)?.({ kind: "close" });
    this.#uses.delete(thread);
  }
}
