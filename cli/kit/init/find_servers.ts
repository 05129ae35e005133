import { identifyServer, type ServerIdentity } from "../../../router/engines/identify.ts";
import { isCanopy, listModels, type Server } from "../client.ts";
import type { Io } from "../io.ts";

/** Ports of this host at which servers of models usually listen. */
export const USUAL_SERVERS: readonly (readonly [port: number, who: string])[] = [
  [11434, "Ollama"],
  [8000, "vLLM"],
  [8001, "vLLM"],
  [30000, "SGLang"],
  [30001, "SGLang"],
  [8080, "llama.cpp"],
  [1234, "LM Studio"],
];

/** Longest wait for each answer of a server. */
const TIMEOUT_MS = 2_000;

/** A server that answered, and the models that it lists. */
export interface FoundServer {
  readonly url: string;
  readonly engine: ServerIdentity["engine"];
  readonly models: readonly string[];
}

/** A server that cannot be used as it is, and why. */
export interface RefusedServer {
  readonly url: string;
  readonly problem: string;
}

/** Servers at URLs: those that tell their models, and those that answer but do not, or are no servers of models. */
export interface FindServersResult {
  readonly found: readonly FoundServer[];
  readonly refused: readonly RefusedServer[];
  /** URLs at which nobody answers as a server of models does. */
  readonly silent: readonly RefusedServer[];
}

/** Asks all URLs at once what they are. `apiKey`: sent to each. */
export async function findServers(
  urls: readonly string[],
  apiKey: string | undefined,
  io: Io,
): Promise<FindServersResult> {
  const answers = await Promise.all(urls.map((url) => findServer({ url, apiKey }, io)));
  io.stop.throwIfAborted();
  return {
    found: answers.flatMap((answer) => "models" in answer ? [answer] : []),
    refused: answers.flatMap((answer) => "problem" in answer && !answer.silent ? [answer] : []),
    silent: answers.flatMap((answer) => "problem" in answer && answer.silent ? [answer] : []),
  };
}

async function findServer(
  server: Server,
  io: Io,
): Promise<FoundServer | (RefusedServer & { readonly silent: boolean })> {
  const { url, apiKey } = server;
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  try {
    const { transport, clock, stop } = io;
    const identity = await identifyServer({ transport, clock, url, headers, timeoutMs: TIMEOUT_MS }, stop);
    if (identity.refusal !== undefined) {
      const wants = apiKey === undefined
        ? "wants a key: name its environment variable with --api-key-env"
        : "refuses the key";
      return { url, problem: `${wants} (status ${identity.refusal})`, silent: false };
    }
    if (await isCanopy(transport, url, stop)) {
      return { url, problem: "is a Canopy that runs already, and no engine", silent: false };
    }
    return { url, engine: identity.engine, models: await listModels(transport, server, stop) };
  } catch (error) {
    io.stop.throwIfAborted();
    return { url, problem: error instanceof Error ? error.message : String(error), silent: true };
  }
}
