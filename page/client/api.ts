import { createParser } from "eventsource-parser";
import { textField } from "../state/json_fields.ts";

/** Where the key is kept: until the tab is closed. */
const KEY_NAME = "canopy-key";

/** A request that was refused or failed, in the server's words. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }

  /** True where another key may help. */
  get asksForKey(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** A request's parts besides its path. */
export interface ApiRequest {
  readonly method?: "GET" | "POST" | "DELETE" | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The browser's `fetch`. */
type Fetching = (path: string, request: RequestInit) => Promise<Response>;

/** The router's public routes, asked with the user's key. */
export class Api {
  readonly #storage: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  readonly #fetch: Fetching;

  constructor(storage: Pick<Storage, "getItem" | "setItem" | "removeItem">, fetches: Fetching) {
    this.#storage = storage;
    this.#fetch = fetches;
  }

  get hasKey(): boolean {
    return (this.#storage.getItem(KEY_NAME) ?? "") !== "";
  }

  /** Keeps a key for all requests from now on; an empty one is forgotten. */
  setKey(key: string): void {
    if (key === "") this.#storage.removeItem(KEY_NAME);
    else this.#storage.setItem(KEY_NAME, key);
  }

  /** Throws `ApiError` for what is no success. */
  async ask(
    path: string,
    { method = "GET", body, headers = {}, signal }: ApiRequest = {},
  ): Promise<Response> {
    const key = this.#storage.getItem(KEY_NAME) ?? "";
    const response = await this.#fetch(path, {
      method,
      headers: {
        ...headers,
        ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "omit",
      signal: signal ?? null,
    });
    if (response.ok) return response;
    throw new ApiError(
      response.status,
      messageIn(await response.text()) || `The server answered ${response.status}`,
    );
  }

  /** An answer's JSON. Throws `ApiError`. */
  async json(path: string, request?: ApiRequest): Promise<unknown> {
    return await (await this.ask(path, request)).json();
  }

  /** The JSON of each server-sent event until `[DONE]`. Throws `ApiError`, also for an error in the stream. */
  async *events(path: string, request?: ApiRequest): AsyncGenerator<unknown, void, undefined> {
    yield* eventsIn(await this.ask(path, request));
  }
}

/** The JSON of each server-sent event of an answer until `[DONE]`. Throws `ApiError` for an error in the stream. */
export async function* eventsIn(response: Response): AsyncGenerator<unknown, void, undefined> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const read: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => void read.push(data) });
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      parser.feed(next.value);
      for (const data of read.splice(0)) {
        if (data === "[DONE]") return;
        const event: unknown = JSON.parse(data);
        const problem = textField(event, "error", "message");
        if (problem !== "") throw new ApiError(0, problem);
        yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function messageIn(text: string): string {
  try {
    return textField(JSON.parse(text), "error", "message");
  } catch {
    return "";
  }
}
