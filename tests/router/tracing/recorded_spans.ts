import type { Clock } from "../../../base/clock.ts";
import type { Span, Spans, SpanStart } from "../../../router/tracing/spans.ts";

/** A span as it was told. */
export interface RecordedSpan {
  readonly id: string;
  readonly parent: string | undefined;
  readonly name: string;
  readonly kind: SpanStart["kind"];
  readonly attributes: Record<string, unknown>;
  readonly events: string[];
  readonly startMs: number;
  endMs: number | undefined;
  error: string | undefined;
}

/** Keeps spans; ids are counted. */
export class RecordedSpans implements Spans {
  readonly all: RecordedSpan[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin({ name, kind, parent, attributes }: SpanStart): Span {
    const span: RecordedSpan = {
      id: String(this.all.length + 1).padStart(16, "0"),
      parent: parent["traceparent"]?.split("-")[2],
      name,
      kind,
      attributes: { ...attributes },
      events: [],
      startMs: this.#clock.now(),
      endMs: undefined,
      error: undefined,
    };
    this.all.push(span);
    const trace = parent["traceparent"]?.split("-")[1] ?? "f".repeat(32);
    return {
      carriedBy: (headers) => ({ ...headers, traceparent: `00-${trace}-${span.id}-01` }),
      set: (more) => {
        if (span.endMs === undefined) Object.assign(span.attributes, more);
      },
      event: (event) => void span.events.push(event),
      end: (error) => {
        if (span.endMs !== undefined) return;
        span.endMs = this.#clock.now();
        span.error = error;
      },
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Those that a span caused. */
  under(parent: RecordedSpan): RecordedSpan[] {
    return this.all.filter((span) => span.parent === parent.id);
  }
}
