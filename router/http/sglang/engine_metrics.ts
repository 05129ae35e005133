import { MergedMetrics } from "./merged_metrics.ts";
import type { Call } from "../gate/context.ts";
import { naming } from "../gate/naming.ts";
import type { HttpServices } from "../gate/services.ts";
import { askWorkers, isGood, unanswered, workersToAsk } from "./worker_fan_out.ts";

const ANSWER_MS = 5_000;

/** The metrics of all workers as one page: every series gets the labels `worker_addr` and `served_model`. */
export async function engineMetrics(http: HttpServices, call: Call): Promise<Response> {
  const targets = workersToAsk([...http.models.values()]);
  const question = { method: "GET", path: "/metrics", limitMs: ANSWER_MS } as const;
  const answers = await askWorkers(http, targets, question, { call });
  const good = answers.filter(isGood);
  if (good.length === 0) throw unanswered(answers);
  const nameOf = naming(http, call);
  const merged = new MergedMetrics();
  for (const { model, worker, text } of good) {
    merged.add(text, { worker_addr: nameOf(worker), served_model: model.name });
  }
  return call.body(merged.toString(), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
}
