/** Values of a span by OpenTelemetry's names; undefined ones are left out. */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** `server`: work for a client's request; `client`: a request to a worker; `internal`: everything else. */
export type SpanKind = "server" | "client" | "internal";

/** The beginning of a span. */
export interface SpanStart {
  readonly name: string;
  readonly kind: SpanKind;
  /** Headers that may name the parent (`traceparent`, `tracestate`; W3C Trace Context). */
  readonly parent: Readonly<Record<string, string>>;
  readonly attributes?: SpanAttributes | undefined;
}

/** A piece of work as distributed traces show it: its time, its parent and what is said of it. */
export interface Span {
  /** `headers` with this span as the parent of what is called with them. */
  carriedBy(headers: Readonly<Record<string, string>>): Record<string, string>;
  set(attributes: SpanAttributes): void;
  /** Notes that something happened now. */
  event(name: string, attributes?: SpanAttributes): void;
  /** Ends it, with an error's text if it failed. Calling it again does nothing. */
  end(error?: string): void;
}

/** Makes the spans of one program and sends them where they are collected. */
export interface Spans {
  begin(start: SpanStart): Span;
  /** Sends what is still here. Never rejects. */
  close(): Promise<void>;
}
