import { messageOf } from "../../base/errors.ts";
import type { Config, ModelConfig, WorkerConfig } from "../../cfgs/schema/config.ts";
import { listModels, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import type { EngineCapabilities } from "../../router/engines/engine.ts";
import { probe } from "../../router/engines/probe.ts";
import { EngineError } from "../../router/worker/engine_error.ts";
import { workerAddress, workerHeaders } from "../../router/worker/worker_access.ts";

/** One thing that was looked at. */
export interface DoctorFinding {
  readonly level: "ok" | "warning" | "problem";
  readonly subject: string;
  /** The observation, and what to do about it. */
  readonly text: string;
}

/** Asks every worker of a configuration who it is and what it can do, all at once. */
export async function checkWorkers(config: Config, io: Io): Promise<DoctorFinding[]> {
  const jobs = Object.entries(config.models).flatMap(([name, model]) =>
    model.engine === "onnx" ? [] : model.workers.map((worker) => checkWorker(name, model, worker, io))
  );
  return (await Promise.all(jobs)).flat();
}

/** A server, or both servers of a pair. */
async function checkWorker(
  name: string,
  model: ModelConfig,
  worker: WorkerConfig,
  io: Io,
): Promise<DoctorFinding[]> {
  if (typeof worker === "string") return await checkServer(name, model, { url: worker }, io);
  if ("url" in worker) return await checkServer(name, model, { url: worker.url, apiKey: worker.api_key }, io);
  const halves = [worker.prefill, worker.decode].map((url) => checkServer(name, model, { url }, io));
  return (await Promise.all(halves)).flat();
}

async function checkServer(
  name: string,
  model: ModelConfig,
  { url: written, apiKey: own }: { readonly url: string; readonly apiKey?: string | undefined },
  io: Io,
): Promise<DoctorFinding[]> {
  const { url, authorization } = workerAddress(written);
  const subject = `model ${name} at ${url}`;
  const apiKey = own ?? (authorization === undefined ? model.api_key : undefined);
  const headers = workerHeaders(model, { url, authorization, apiKey: own });
  const { clock, transport, stop } = io;
  const startMs = clock.now();
  let capabilities: EngineCapabilities;
  try {
    capabilities = await probe({ config: model, transport, clock, url, headers, signal: stop });
  } catch (error) {
    stop.throwIfAborted();
    const text = `${messageOf(error)}: ${remedy(name, error)}`;
    return [{ level: "problem", subject, text }];
  }
  const server: Server = { url: written.replace(/\/+$/, "").replace(/\/v1$/, ""), apiKey };
  const names = await listModels(transport, server, stop).catch(() => undefined);
  const can = describe(model, capabilities);
  const tookMs = Math.round(clock.now() - startMs);
  const findings: DoctorFinding[] = [{ level: "ok", subject, text: `${can}, answers in ${tookMs} ms` }];
  if (names !== undefined && names.length > 0 && !names.includes(model.model)) {
    const text = `serves ${names.slice(0, 5).map((name) => `"${name}"`).join(", ")}, not "${model.model}": ` +
      `set models.${name}.model`;
    findings.push({ level: "problem", subject, text });
  }
  return [
    ...findings,
    ...limits(name, model, capabilities).map((text): DoctorFinding => ({ level: "warning", subject, text })),
  ];
}

/** The fix for a server that did not tell what it is. */
function remedy(name: string, error: unknown): string {
  const status = error instanceof EngineError ? error.workerStatus : undefined;
  if (status === 401 || status === 403) return `set models.${name}.api_key to the key it wants`;
  if (status === undefined) return `start it, or correct models.${name}.workers`;
  return "look at its log";
}

function describe(model: ModelConfig, capabilities: EngineCapabilities): string {
  const { version, contextTokens } = capabilities;
  const context = contextTokens === undefined ? "context unknown" : `${contextTokens} tokens of context`;
  return `${model.engine}${version === undefined ? "" : ` ${version}`}, ${context}`;
}

/** Features that would not work with this server, each with its fix. */
function limits(name: string, model: ModelConfig, capabilities: EngineCapabilities): string[] {
  const found: string[] = [];
  if (model.engine !== "openai" && capabilities.version === undefined) {
    found.push(
      `does not tell its version, so it may not be ${model.engine}: if it is not, set models.${name}.engine`,
    );
  }
  if (capabilities.contextTokens === undefined) {
    found.push(
      `does not tell its context length, so too long prompts fail late: set models.${name}.context_tokens`,
    );
  }
  if (!capabilities.returnsTokenIds && model.engine !== "openai") {
    found.push("does not return token ids, so answers are spliced as text: upgrade the server");
  }
  if (!capabilities.cachedTokens) {
    found.push("does not report cached tokens, so usage lacks them: upgrade the server");
  }
  return found;
}
