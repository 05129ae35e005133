import type { Clock } from "../../base/clock.ts";
import type { HttpMetrics } from "../http/metrics/http_metrics.ts";
import type { Fetches } from "../http/server/fetches.ts";
import { runsOfThreads } from "./thread_runs.ts";

/** Options of a `LeadingFront`. */
export interface LeadingFrontOptions {
  readonly app: Fetches;
  /** The threads that serve. */
  readonly threads: () => readonly Fetches[];
  /** Resolves when all threads have heard what was told until now, or are late. */
  readonly settled: () => Promise<unknown>;
  readonly metrics: HttpMetrics;
  readonly clock: Clock;
}

/**
 * Answers the requests that serving threads hand on: those about runs and requests under way by asking the threads,
 * the rest by the router of the thread that leads.
 */
export class LeadingFront implements Fetches {
  readonly #options: LeadingFrontOptions;

  constructor(options: LeadingFrontOptions) {
    this.#options = options;
  }

  async fetch(request: Request, env?: object): Promise<Response> {
    const { app, clock } = this.#options;
    const { pathname } = new URL(request.url);
    const threads = this.#options.threads();
    const startedMs = clock.now();
    if (pathname === "/v1/runs") return await runsOfThreads(request, { app, threads }, env);
    if (pathname.startsWith("/v1/runs/")) {
      const answer = await askEach(request, threads, env);
      if (answer !== undefined) return this.#counted(request, answer, startedMs);
    }
    if (pathname === "/abort_request" && threads.length > 0) {
      return this.#counted(request, await askAll(request, threads, env), startedMs);
    }
    const answer = await app.fetch(request, env);
    // What a client was told has changed has changed everywhere.
    if (request.method !== "GET") await this.#options.settled();
    return answer;
  }

  /** What threads have answered for all counts here. */
  #counted(request: Request, answer: Response, startedMs: number): Response {
    const path = new URL(request.url).pathname.replace(/^(\/v1\/runs\/)[^/]*/, "$1:id");
    this.#options.metrics.count({ method: request.method, path, startedMs }, answer);
    return answer;
  }
}

/** The answer of the thread that knows the run; undefined when none does: it has ended, or never was. */
async function askEach(
  request: Request,
  threads: readonly Fetches[],
  env?: object,
): Promise<Response | undefined> {
  for (const thread of threads) {
    const answer = await thread.fetch(request.clone(), env);
    if (answer.status !== 404) return answer;
    await answer.body?.cancel();
  }
  return undefined;
}

/** Has every thread do it; the first answer that is no success counts. */
async function askAll(request: Request, threads: readonly Fetches[], env?: object): Promise<Response> {
  const copies = copiesOf(request, threads.length);
  const answers = await Promise.all(threads.map((thread, at) => thread.fetch(copies[at]!, env)));
  return answers.find(({ ok }) => !ok) ?? answers[0]!;
}

function copiesOf(request: Request, count: number): Request[] {
  return Array.from({ length: count }, (_, at) => at === count - 1 ? request : request.clone());
}
