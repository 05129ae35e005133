import { messageOf } from "../../base/errors.ts";
import { readText } from "../../base/read_body.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import type { Io } from "../kit/io.ts";
import { addressOf, ownKeyOf } from "../kit/server_place.ts";
import type { DoctorFinding } from "./check_workers.ts";

const MAX_METRICS_BYTES = 16 * 1024 * 1024;
/** Share of the spliced tokens below which something keeps prompts from being prefilled ahead. */
const GOOD_SHARE = 0.5;

/** The running router of a configuration, as its metrics show it. */
export interface LiveRouter {
  readonly findings: readonly DoctorFinding[];
  /** Of the models whose tokens the router knows, or asks an engine for: who tells them. */
  readonly tokens: ReadonlyMap<string, "router" | "engine_asked">;
}

/** Asks the running router of a configuration how much of its agents' prompts was prefilled ahead. */
export async function checkLive({ server }: Config, port: number | undefined, io: Io): Promise<LiveRouter> {
  const url = addressOf({ ...server, port: port ?? server.port });
  const subject = `router at ${url}`;
  const key = ownKeyOf(server);
  try {
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await io.transport.send({ method: "GET", url: `${url}/metrics`, headers }, io.stop);
    const text = await readText(response.body, MAX_METRICS_BYTES, "its metrics");
    if (response.status !== 200) throw new Error(`it answered ${response.status} to /metrics`);
    return { findings: overlapOf(text, subject), tokens: tokensOf(text) };
  } catch (error) {
    io.stop.throwIfAborted();
    const text = `${messageOf(error)}: start it with canopy serve`;
    return { findings: [{ level: "problem", subject, text }], tokens: new Map() };
  }
}

function overlapOf(metrics: string, subject: string): DoctorFinding[] {
  const of = (kind: string) => valuesOf(metrics, `canopy_tokens_total`, `kind="${kind}"`);
  const spliced = of("spliced");
  const cached = of("spliced_cached");
  const held = valuesOf(metrics, "canopy_warms_held_total", `for="precursors"`);
  const findings = [...spliced].filter(([, tokens]) => tokens > 0).map(([model, tokens]): DoctorFinding => {
    const share = (cached.get(model) ?? 0) / tokens;
    const text = `${Math.round(100 * share)} % of ${tokens} spliced tokens were cached at the final prefill`;
    const prompts = held.get(model) ?? 0;
    return {
      level: share >= GOOD_SHARE || prompts > 0 ? "ok" : "warning",
      subject: `${subject}, ${model}`,
      text: prompts === 0 ? text : `${text}; ${prompts} prompts were not read ahead, since that cost their ` +
        "precursors what it saved: GET /v1/runs/ID has the figures (warm_held)",
    };
  });
  for (const [model, tokens] of of("spliced_unreported")) {
    if (tokens === 0) continue;
    findings.push({
      level: "warning",
      subject: `${subject}, ${model}`,
      text: `its engine did not say how many of ${tokens} spliced tokens it had cached: start it with ` +
        "--enable-prompt-tokens-details (vLLM) or --enable-cache-report (SGLang)",
    });
  }
  if (findings.length > 0) return findings;
  const text = of("prompt").size === 0
    ? "no run has ended yet: ask a graph something and look again"
    : "no prompt of its runs was spliced: GET /v1/runs/ID says why (warm_off)";
  return [{ level: "warning", subject, text }];
}

function tokensOf(metrics: string): LiveRouter["tokens"] {
  const tokens = new Map<string, "router" | "engine_asked">();
  for (const by of ["router", "engine_asked"] as const) {
    for (const model of valuesOf(metrics, "canopy_tokenizer", `by="${by}"`).keys()) tokens.set(model, by);
  }
  return tokens;
}

/** A family's values by model, of the samples that have a label. */
function valuesOf(metrics: string, family: string, label: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const [, name, labels = "", value] of metrics.matchAll(/^(\w+)\{([^}]*)\} (\S+)/gm)) {
    const model = /model="([^"]*)"/.exec(labels)?.[1];
    if (name === family && model !== undefined && labels.includes(label)) values.set(model, Number(value));
  }
  return values;
}
