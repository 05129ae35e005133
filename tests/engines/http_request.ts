import { type IncomingMessage, request } from "node:http";

type Method = "GET" | "POST" | "DELETE";

/** A whole answer. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** An answer that is still coming. */
export interface OpenAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** What came so far. */
  text(): string;
  /** Resolves when `text()` fits; rejects when the answer ends, or `timeoutMs` pass, before that. */
  until(fits: (text: string) => boolean, timeoutMs: number): Promise<void>;
  /** Resolves with the whole text; rejects when the connection breaks. */
  end(): Promise<string>;
  /** Leaves: closes the socket at once. */
  leave(): void;
}

/**
 * Sends one request on a connection of its own and resolves when the head of the answer has come. `onLeave` gets a
 * function that closes the socket, for leaving before that.
 */
export function open(
  method: Method,
  url: string,
  body?: unknown,
  onLeave?: (leave: () => void) => void,
): Promise<OpenAnswer> {
  return new Promise((resolve, reject) => {
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const outgoing = request(url, {
      method,
      agent: false, // engines close idle sockets after 5 s; a fresh one for each request cannot be stale
      headers: payload === undefined
        ? {}
        : { "content-type": "application/json", "content-length": Buffer.byteLength(payload) },
    });
    onLeave?.(() => outgoing.destroy());
    outgoing.on("error", reject);
    outgoing.on("response", (incoming) => {
      let text = "";
      let ended = false;
      let broken: Error | undefined;
      const waiting = new Set<() => void>();
      const wake = () => [...waiting].forEach((check) => check());
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => (text += chunk, wake()));
      incoming.on("end", () => (ended = true, wake()));
      incoming.on("error", (error) => (broken = error, wake()));
      incoming.on("close", () => {
        if (!ended) {
          broken ??= new Error(`${method} ${url}: the connection closed after ${text.length} characters`);
        }
        wake();
      });
      const wait = (done: () => boolean, what: string, timeoutMs?: number) =>
        new Promise<void>((resolve, reject) => {
          const settle = (error?: Error) => {
            waiting.delete(check);
            clearTimeout(timer);
            if (error === undefined) resolve();
            else reject(error);
          };
          const check = () => {
            if (done()) settle();
            else if (broken !== undefined) settle(broken);
            else if (ended) settle(new Error(`${method} ${url}: ended before ${what}: ${text.slice(-500)}`));
          };
          const timer = timeoutMs === undefined ? undefined : setTimeout(
            () =>
              settle(new Error(`${method} ${url}: no ${what} within ${timeoutMs} ms: ${text.slice(-500)}`)),
            timeoutMs,
          );
          waiting.add(check);
          check();
        });
      resolve({
        status: incoming.statusCode ?? 0,
        headers: incoming.headers,
        text: () => text,
        until: (fits, timeoutMs) => wait(() => fits(text), "text that fits", timeoutMs),
        end: async () => {
          await wait(() => ended, "its end");
          return text;
        },
        leave: () => {
          incoming.destroy();
          outgoing.destroy();
        },
      });
    });
    outgoing.end(payload);
  });
}

/** Sends one request and resolves with the whole answer. */
export async function send(method: Method, url: string, body?: unknown): Promise<Answer> {
  const answer = await open(method, url, body);
  return { status: answer.status, text: await answer.end() };
}
