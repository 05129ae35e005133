import { logger } from "../../../base/log.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { otlpSpans } from "../../../router/tracing/otlp_spans.ts";
import type { Spans } from "../../../router/tracing/spans.ts";
import type { Io } from "../io.ts";
import { version } from "../version.ts";

/** The traces that a configuration asks for; undefined when it asks for none. */
export function makeSpans(
  { server: { tracing } }: Config,
  { clock, random }: Pick<Io, "clock" | "random">,
): Promise<Spans> | undefined {
  if (tracing === undefined) return undefined;
  const log = logger("tracing");
  const endpoint = tracing.otlp_endpoint;
  return otlpSpans({
    config: tracing,
    clock,
    random: random.stream("spans"),
    version,
    onLost(reason) {
      if (reason === undefined) log.info("{endpoint} takes spans again", { endpoint });
      else log.warning("Spans are lost: {endpoint} does not take them: {reason}", { endpoint, reason });
    },
  });
}
