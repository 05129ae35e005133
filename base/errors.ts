/** Properties of a `CanopyError` besides its sentence. */
export interface CanopyErrorOptions {
  /** Stable, machine-readable name in snake_case, such as `worker_unreachable`. */
  code: string;
  /** HTTP status for the client. 4xx: its request; 502: a worker; 503: the router is full or draining; 500: the router. */
  status: number;
  /** The request or config field at fault, such as `messages[0].content`. */
  param?: string | undefined;
  /** OpenAI's error type; by default it follows from the status. */
  type?: string | undefined;
  /** Seconds after which a retry may succeed (`Retry-After`). */
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

const BRAND = Symbol.for("canopy.error");

/** The one error type of the program: one sentence that says what failed, with which value, and what to do. */
export class CanopyError extends Error {
  override readonly name: string = "CanopyError";
  readonly code: string;
  readonly status: number;
  readonly type: string;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly [BRAND] = true;

  constructor(message: string, options: CanopyErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.status = options.status;
    this.type = options.type ?? typeOfStatus(options.status);
    this.param = options.param;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  /** True for errors of this type, also across copies of this module. */
  static is(error: unknown): error is CanopyError {
    return typeof error === "object" && error !== null && BRAND in error;
  }
}

/** A 400 that names the field at fault. */
export function badRequest(param: string | undefined, message: string, code = "invalid_value"): CanopyError {
  return new CanopyError(message, { code, status: 400, param });
}

/** The sentence of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function typeOfStatus(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  if (status === 503) return "overloaded_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** The system's code of an error of files or sockets, such as ENOSPC; undefined for other errors. */
export function systemCodeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && /^E[A-Z0-9]+$/.test(String(error.code))
    ? String(error.code)
    : undefined;
}
