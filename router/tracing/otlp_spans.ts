import type { Attributes, HrTime, SpanOptions } from "@opentelemetry/api";
import type { IdGenerator, ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { Clock } from "../../base/clock.ts";
import type { Random } from "../../base/random.ts";
import type { Span, SpanAttributes, Spans, SpanStart } from "./spans.ts";
import type { TracingConfig } from "../../cfgs/schema/tracing.ts";

/** Spans that may wait for the collector; what comes on top is lost. A run of thirteen agents has some sixty. */
const MAX_QUEUED_SPANS = 65_536;

/** Options of `otlpSpans`. */
export interface OtlpSpansOptions {
  readonly config: TracingConfig;
  readonly clock: Clock;
  /** For the ids of traces and spans. */
  readonly random: Random;
  /** Called with a reason when the collector takes no spans any more, and without one when it does again. */
  readonly onLost: (reason: string | undefined) => void;
  /** Version of the program, as `service.version`. */
  readonly version?: string | undefined;
}

/** Spans that go to a collector by OTLP, in batches, beside the requests. The libraries are loaded here first. */
export async function otlpSpans(
  { config, clock, random, onLost, version }: OtlpSpansOptions,
): Promise<Spans> {
  const [api, sdk, { resourceFromAttributes }, exporter] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/resources"),
    exporterOf(config),
  ]);
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ "service.name": config.service_name, "service.version": version }),
    idGenerator: idsOf(random),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(config.sample_ratio) }),
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: reporting(exporter, onLost),
        maxQueueSize: MAX_QUEUED_SPANS,
      }),
    ],
  });
  const tracer = provider.getTracer("canopy", version);
  const kinds = {
    server: api.SpanKind.SERVER,
    client: api.SpanKind.CLIENT,
    internal: api.SpanKind.INTERNAL,
  };
  const now = (): HrTime => hrTime(clock.unixEpochMs + clock.now());

  function begin({ name, kind, parent, attributes = {} }: SpanStart): Span {
    const context = contextOf(parent);
    const above = context === undefined
      ? api.ROOT_CONTEXT
      : api.trace.setSpanContext(api.ROOT_CONTEXT, context);
    const options: SpanOptions = { kind: kinds[kind], startTime: now(), attributes: plain(attributes) };
    const span = tracer.startSpan(name, options, above);
    const { traceId, spanId, traceFlags } = span.spanContext();
    const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
    return {
      carriedBy: (headers) => ({ ...headers, traceparent }),
      set: (more: SpanAttributes) => void span.setAttributes(plain(more)),
      event: (event, more = {}) => void span.addEvent(event, plain(more), now()),
      end(error) {
        if (!span.isRecording()) return;
        if (error !== undefined) span.setStatus({ code: api.SpanStatusCode.ERROR, message: error });
        span.end(now());
      },
    };
  }

  return {
    begin,
    close: () => provider.shutdown().catch(() => {}),
  };
}

async function exporterOf({ protocol, otlp_endpoint, headers }: TracingConfig): Promise<SpanExporter> {
  if (protocol === "grpc") {
    const [{ OTLPTraceExporter }, { Metadata }] = await Promise.all([
      import("@opentelemetry/exporter-trace-otlp-grpc"),
      import("@grpc/grpc-js"),
    ]);
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    return new OTLPTraceExporter({ url: otlp_endpoint, metadata });
  }
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
  const url = new URL(otlp_endpoint);
  if (url.pathname === "/") url.pathname = "/v1/traces";
  return new OTLPTraceExporter({ url: url.href, headers });
}

/** An exporter that says once when nobody takes the spans, and once when somebody does again. */
function reporting(exporter: SpanExporter, onLost: OtlpSpansOptions["onLost"]): SpanExporter {
  let lost = false;
  return {
    export: (spans: ReadableSpan[], done) =>
      exporter.export(spans, (result) => {
        const fails = result.code !== 0;
        if (fails !== lost) onLost(fails ? result.error?.message ?? "no reason was given" : undefined);
        lost = fails;
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}

function idsOf(random: Random): IdGenerator {
  return { generateTraceId: () => random.hex(32), generateSpanId: () => random.hex(16) };
}

/** The parent that a `traceparent` names (W3C Trace Context, 3.2); undefined for none and for one that is not valid. */
function contextOf(headers: Readonly<Record<string, string>>) {
  const fields = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(
    headers["traceparent"] ?? "",
  );
  const [, version = "ff", traceId = "", spanId = "", flags = "", more] = fields ?? [];
  if (fields === null || version === "ff" || version === "00" && more !== undefined) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

function plain(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, Array.isArray(value) ? [...value] : value]),
  ) as Attributes;
}

/** Seconds and nanoseconds, as OpenTelemetry keeps times. */
function hrTime(unixMs: number): HrTime {
  const seconds = Math.floor(unixMs / 1000);
  return [seconds, Math.round((unixMs - seconds * 1000) * 1e6)];
}
