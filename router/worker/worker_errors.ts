import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { TransportError } from "../../base/transport.ts";
import { EngineError } from "./engine_error.ts";
import type { Placement } from "./placement.ts";

/** Longest part of a worker's own error text that is passed on. */
const MAX_MESSAGE_LENGTH = 500;

type NamedWorker = Pick<Placement, "workerId" | "url">;

/** A worker as clients may know it: its address is for the log, and for the admin at /workers. */
function nameOf({ workerId }: NamedWorker): string {
  return `Worker ${workerId}`;
}

/** A worker's error body, or the `error` of an event inside a stream. */
export interface WorkerComplaint {
  readonly message: string;
  readonly param: string | undefined;
  /** Status that the worker names inside the body. */
  readonly status: number | undefined;
}

/**
 * Reads an error in any of the shapes seen: OpenAI's `{"error":{…}}`, SGLang's `{"object":"error",…}`,
 * FastAPI's `{"detail":…}`, plain text. Source paths of the server and echoed input are cut out.
 */
export function readComplaint(body: unknown): WorkerComplaint {
  if (!isJsonObject(body)) {
    return { ...clean(typeof body === "string" ? body : ""), status: undefined };
  }
  const error: unknown = body.error ?? body;
  if (!isJsonObject(error)) return { ...clean(String(error)), status: undefined };
  const text = error.message ?? error.detail ?? error.msg;
  const { message, param } = listed(text) ?? clean(
    typeof text === "string" ? text : text === undefined ? "" : JSON.stringify(text),
  );
  const status = Number(error.code ?? error.status_code);
  return {
    message,
    param: typeof error.param === "string" && error.param !== "" ? withoutBody(error.param) : param,
    status: Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined,
  };
}

/** The error of a worker's non-2xx answer. */
export function workerRefusal(worker: NamedWorker, status: number, body: string): EngineError {
  return refusal(worker, status, readComplaint(parseOrText(body)), status);
}

/** The error of an error event inside a stream: by the status it names itself, else 502. */
export function streamedError(worker: NamedWorker, complaint: WorkerComplaint): EngineError {
  return refusal(worker, complaint.status ?? 500, complaint, undefined);
}

function refusal(
  worker: NamedWorker,
  status: number,
  complaint: WorkerComplaint,
  workerStatus: number | undefined,
): EngineError {
  const said = complaint.message === "" ? `status ${status}` : complaint.message;
  const common = { workerUrl: worker.url, workerStatus };
  if (status === 429 || status === 503) {
    return new EngineError(`${nameOf(worker)} is overloaded: ${said}`, {
      ...common,
      code: "worker_overloaded",
      status,
      retryable: true,
    });
  }
  if (status === 401 || status === 403) {
    return new EngineError(
      `${nameOf(worker)} refused our credentials (status ${status}): check the api_key of its model`,
      { ...common, code: "worker_unauthorized", status: 502, retryable: true },
    );
  }
  if (status >= 300 && status < 400) {
    return new EngineError(
      `${nameOf(worker)} redirects (status ${status}): configure the URL it leads to`,
      {
        ...common,
        code: "worker_failed",
        status: 502,
        retryable: true,
      },
    );
  }
  if (status >= 400 && status < 500 && status !== 408) {
    // What is missing is the worker's: the model that it is configured to have, or the path.
    return new EngineError(status === 404 ? `${nameOf(worker)} answered with status 404: ${said}` : said, {
      ...common,
      code: "worker_refused",
      status,
      // Another worker may have it: this one was started with another model, or is another program.
      retryable: status === 404,
      param: complaint.param,
    });
  }
  return new EngineError(`${nameOf(worker)} failed: ${said}`, {
    ...common,
    code: "worker_failed",
    status: 502,
    retryable: true,
  });
}

/** The error of a broken connection, or of anything else that went wrong between us and a worker. */
export function connectionError(worker: NamedWorker, cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const code = cause instanceof TransportError ? cause.code : undefined;
  if (code === "connect_failed") {
    return new EngineError(`${nameOf(worker)} cannot be reached`, {
      code: "worker_unreachable",
      status: 502,
      workerUrl: worker.url,
      retryable: true,
      cause,
    });
  }
  const where = code === "reset_in_body" ? "inside its answer" : "before it answered";
  const what = code === "invalid_response"
    ? "sent something that is not HTTP"
    : `closed the connection ${where}`;
  return new EngineError(`${nameOf(worker)} ${what}`, {
    code: "worker_connection_lost",
    status: 502,
    workerUrl: worker.url,
    retryable: true,
    cause,
  });
}

/** A worker that was silent for too long: before its first token or, `begun`, after it. */
export function overdue(worker: NamedWorker, limitMs: number, begun: boolean): EngineError {
  const what = begun ? `nothing more within ${limitMs} ms` : `no token within ${limitMs} ms`;
  return new EngineError(`${nameOf(worker)} sent ${what}`, {
    code: "worker_timeout",
    status: 502,
    workerUrl: worker.url,
    retryable: true,
  });
}

/** A worker that was taken out of service while it worked for a request. */
export function lostWorker(
  worker: { readonly id: string; readonly url: string },
  reason: string,
): EngineError {
  return new EngineError(
    `Worker ${worker.id} was taken out of service before its answer was whole: ${reason}`,
    {
      code: "worker_lost",
      status: 502,
      workerUrl: worker.url,
      retryable: true,
    },
  );
}

/** A worker's answer that breaks its own protocol. */
export function invalidAnswer(worker: NamedWorker, what: string, cause?: unknown): EngineError {
  return new EngineError(`${nameOf(worker)} sent an invalid answer: ${what}`, {
    code: "worker_invalid_answer",
    status: 502,
    workerUrl: worker.url,
    retryable: true,
    cause,
  });
}

/** A stream that ended before its generation did. */
export function cutStream(worker: NamedWorker, cause?: unknown): EngineError {
  return new EngineError(`${nameOf(worker)} ended its stream before the generation was over`, {
    code: "worker_stream_cut",
    status: 502,
    workerUrl: worker.url,
    retryable: true,
    cause,
  });
}

/** A worker that says itself that it gave the generation up (`finish_reason` abort or error). */
export function givenUp(worker: NamedWorker, reason: string, complaint?: WorkerComplaint): EngineError {
  if (complaint?.status !== undefined) return streamedError(worker, complaint);
  const detail = complaint === undefined || complaint.message === "" ? "" : `: ${complaint.message}`;
  return new EngineError(`${nameOf(worker)} gave the generation up (${reason})${detail}`, {
    code: "worker_aborted",
    status: 502,
    workerUrl: worker.url,
    retryable: true,
  });
}

function parseOrText(body: string): unknown {
  try {
    const value: JsonObject = JSON.parse(body);
    return value;
  } catch {
    return body;
  }
}

/** Pydantic's list of errors holds source paths and the input; only the places and messages are kept. */
function clean(message: string): Pick<WorkerComplaint, "message" | "param"> {
  const head = message.split(/\n[ \t]*File "/, 1)[0] ?? "";
  const places = [
    ...head.matchAll(
      /'loc': (\(.{0,300}?\)|'[^']{0,300}'), 'msg': ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/g,
    ),
  ].map(([, place = "", said = ""]) => ({ field: pathOf(partsOf(place)), said: unquote(said) }));
  // A list that is not understood may hold the prompt: only its title is passed on.
  if (places.length > 0) return complaintOf(places);
  const text = /validation errors?:/.test(head) ? head.split("\n", 1)[0] ?? "" : head;
  return { message: shortened(text), param: undefined };
}

/** FastAPI's list of errors as JSON, of which the same is kept; undefined for anything else. */
function listed(errors: unknown): Pick<WorkerComplaint, "message" | "param"> | undefined {
  if (!Array.isArray(errors)) return undefined;
  const places = errors.flatMap((error: unknown) => {
    if (!isJsonObject(error) || typeof error.msg !== "string") return [];
    return [{ field: pathOf(Array.isArray(error.loc) ? error.loc.map(String) : []), said: error.msg }];
  });
  return places.length === 0 ? undefined : complaintOf(places);
}

function complaintOf(
  places: readonly { readonly field: string; readonly said: string }[],
): Pick<WorkerComplaint, "message" | "param"> {
  const known = new Set(places.map(({ field, said }) => `${field}: ${said}`));
  const [first] = places;
  return {
    message: shortened([...known].join("; ")),
    param: first?.field === "body" ? undefined : first?.field,
  };
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= MAX_MESSAGE_LENGTH ? line : `${line.slice(0, MAX_MESSAGE_LENGTH)}…`;
}

/** The parts of a place as Python writes it. */
function partsOf(place: string): string[] {
  const parts = place.startsWith("(") ? place.slice(1, -1).split(/,\s*/) : [place];
  return parts.map((part) => withoutBody(part.replace(/^['"]|['"]$/g, "")));
}

/** Newer vLLM writes one text, such as body.prompt.1. */
function withoutBody(place: string): string {
  return place.replace(/^body\./, "");
}

function pathOf(parts: readonly string[]): string {
  // Parts such as `function-after[…]` or `list[str]` name a validator, not a field.
  const fields = parts.filter((part) => !/[[\]]|^(str|int|float|bool|body)$/.test(part) && part !== "");
  return fields.length === 0 ? "body" : fields.join(".");
}

function unquote(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, "$1");
}
