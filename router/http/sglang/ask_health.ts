import type { Call } from "../gate/context.ts";
import { notReadyReason } from "../gate/readiness.ts";
import type { HttpServices } from "../gate/services.ts";
import { askWorkers, type FanOutTarget, isGood } from "./worker_fan_out.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** SGLang lets a token be written for it, and gives itself 20 s. */
const ANSWER_MS = 20_000;

/** 200 when the router is ready and one worker of every served model (of pairs, one of each half) says it is well. */
export async function askHealth(http: HttpServices, call: Call): Promise<Response> {
  const notReady = notReadyReason(http);
  if (notReady !== undefined) return notWell(call, notReady);
  const asked = [...http.models.values()].filter(({ config }) => config.served).map(async (model) => {
    const question = { method: "GET", path: healthPath(model), limitMs: ANSWER_MS } as const;
    return await askWorkers(http, oneOfEach(model), question, { call });
  });
  const ill = (await Promise.all(asked)).flat().filter((answer) => !isGood(answer));
  if (ill.length === 0) return call.json({ status: "ok" });
  return notWell(
    call,
    ill.map(({ worker, status }) => `${worker.id}: ${status === 0 ? "no answer" : `status ${status}`}`).join(
      "; ",
    ),
  );
}

function notWell(call: Call, reason: string): Response {
  return call.json({ status: "not_ready", reason }, 503, { "retry-after": "1" });
}

function healthPath({ config: { engine } }: ServedModel): string {
  if (engine.startsWith("sglang")) return "/health_generate";
  return engine === "openai" ? "/v1/models" : "/health";
}

/** A usable worker of each half that the model has. */
function oneOfEach(model: ServedModel): FanOutTarget[] {
  const usable = model.pool.workers().filter(({ health, breaker }) =>
    health === "healthy" && breaker !== "open"
  );
  const roles = new Set(usable.map(({ role }) => role));
  return [...roles].flatMap((role) => {
    const worker = usable.find((one) => one.role === role);
    return worker === undefined ? [] : [{ model, worker }];
  });
}
