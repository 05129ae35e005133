import { CanopyError } from "../../base/errors.ts";

/** A worker failed, or refused a request. */
export class EngineError extends CanopyError {
  override readonly name = "EngineError";
  readonly workerUrl: string;
  /** True when the same request may succeed on another worker. */
  readonly retryable: boolean;
  /** The worker's own HTTP status, if it answered. */
  readonly workerStatus: number | undefined;

  constructor(message: string, options: {
    code: string;
    /** Status for our client: the worker's own for a 4xx, else 502. */
    status: number;
    workerUrl: string;
    retryable: boolean;
    workerStatus?: number | undefined;
    param?: string | undefined;
    cause?: unknown;
  }) {
    super(message, options);
    this.workerUrl = options.workerUrl;
    this.retryable = options.retryable;
    this.workerStatus = options.workerStatus;
  }
}
