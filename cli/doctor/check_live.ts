import { messageOf } from "../../base/errors.ts";
import { readText } from "../../base/read_body.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import type { Io } from "../kit/io.ts";
import type { DoctorFinding } from "./check_workers.ts";

const MAX_METRICS_BYTES = 16 * 1024 * 1024;
/** Share of the spliced tokens below which something keeps prompts from being prefilled ahead. */
const GOOD_SHARE = 0.5;

/** Asks the running router of a configuration how much of its agents' prompts was prefilled ahead. */
export async function checkLive(
  { server }: Config,
  port: number | undefined,
  io: Io,
): Promise<DoctorFinding[]> {
  const host = server.host === "0.0.0.0" || server.host === "::" ? "127.0.0.1" : server.host;
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${port ?? server.port}`;
  const subject = `router at ${url}`;
  const key = server.admin_key ?? server.api_keys[0];
  try {
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await io.transport.send({ method: "GET", url: `${url}/metrics`, headers }, io.stop);
    const text = await readText(response.body, MAX_METRICS_BYTES, "its metrics");
    if (response.status !== 200) throw new Error(`it answered ${response.status} to /metrics`);
    return overlapOf(text, subject);
  } catch (error) {
    io.stop.throwIfAborted();
    return [{ level: "problem", subject, text: `${messageOf(error)}: start it with canopy serve` }];
  }
}

function overlapOf(metrics: string, subject: string): DoctorFinding[] {
  const of = (kind: string) => {
    const counts = new Map<string, number>();
    for (const [, labels = "", count] of metrics.matchAll(/^canopy_tokens_total\{([^}]*)\} (\S+)/gm)) {
      const model = /model="([^"]*)"/.exec(labels)?.[1];
      if (model !== undefined && labels.includes(`kind="${kind}"`)) counts.set(model, Number(count));
    }
    return counts;
  };
  const spliced = of("spliced");
  const cached = of("spliced_cached");
  const findings = [...spliced].filter(([, tokens]) => tokens > 0).map(([model, tokens]): DoctorFinding => {
    const share = (cached.get(model) ?? 0) / tokens;
    return {
      level: share >= GOOD_SHARE ? "ok" : "warning",
      subject: `${subject}, ${model}`,
      text: `${Math.round(100 * share)} % of ${tokens} spliced tokens were cached at the final prefill`,
    };
  });
  if (findings.length > 0) return findings;
  const text = of("prompt").size === 0
    ? "no run has ended yet: ask a graph something and look again"
    : "no prompt of its runs was spliced: GET /v1/runs/ID says why (warm_off)";
  return [{ level: "warning", subject, text }];
}
