import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import { loadAnyTokenizer } from "../kit/router/load_any_tokenizer.ts";
import { modelsToPrefill } from "../kit/router/prefill_warnings.ts";
import type { Io } from "../kit/io.ts";
import type { LiveRouter } from "./check_live.ts";
import type { DoctorFinding } from "./check_workers.ts";
import { probe } from "../../router/engines/probe.ts";
import { findTokenizer, noTokenizerText, type TokenizerNames } from "../../router/served/find_tokenizer.ts";
import { workerAddress, workerHeaders } from "../../router/worker/worker_access.ts";

/**
 * Says of every model whose agents' prompts are to be prefilled ahead whether they can be, as serving would find it; what
 * a running router has found counts more.
 */
export async function checkTokenizers(
  config: Config,
  live: Pick<LiveRouter, "tokens"> | undefined,
  io: Io,
): Promise<DoctorFinding[]> {
  return await Promise.all(
    modelsToPrefill(config).map((name) => {
      if (live?.tokens.get(name) !== "router") return checkModel(name, config.models[name]!, io);
      const text = "the running router has it: its agents' prompts can be prefilled ahead";
      return Promise.resolve<DoctorFinding>({ level: "ok", subject: `tokenizer of ${name}`, text });
    }),
  );
}

async function checkModel(name: string, config: ModelConfig, io: Io): Promise<DoctorFinding> {
  const { clock, transport, stop: signal, env } = io;
  const subject = `tokenizer of ${name}`;
  const workers = (await Promise.all(config.workers.map((worker) => namesAt(worker, config, io)))).flat();
  const load = (source: string) => loadAnyTokenizer(source, { transport, signal, env });
  const found = await findTokenizer({ config, workers, load, clock, transport, signal });
  if ("refusal" in found) {
    return { level: "warning", subject, text: noTokenizerText(name, found.refusal, found.tells) };
  }
  const { streaming } = found.tokenizer;
  if (streaming === undefined || "refusal" in streaming) {
    const why = streaming?.refusal ?? "it encodes whole texts only";
    return {
      level: "warning",
      subject,
      text: `${found.source}, but prompts cannot be prefilled ahead: ${why}`,
    };
  }
  return { level: "ok", subject, text: `${found.source}: its agents' prompts can be prefilled ahead` };
}

/** What a worker that answers says of its tokenizer; of a pair, its decode half. */
async function namesAt(
  worker: ModelConfig["workers"][number],
  config: ModelConfig,
  { clock, transport, stop: signal }: Io,
): Promise<TokenizerNames[]> {
  const written = typeof worker === "string" ? worker : "url" in worker ? worker.url : worker.decode;
  const apiKey = typeof worker === "object" && "url" in worker ? worker.api_key : undefined;
  const { url, authorization } = workerAddress(written);
  const headers = workerHeaders(config, { url, authorization, apiKey });
  try {
    const { tokenizerNames } = await probe({ config, transport, clock, url, headers, signal });
    return [{ url, headers, names: tokenizerNames ?? [] }];
  } catch {
    signal.throwIfAborted();
    return []; // said by the check of the workers
  }
}
