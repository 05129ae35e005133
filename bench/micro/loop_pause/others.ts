import { startThread } from "../../../ml/onnx/thread.ts";

/** Sends an input of `LARGE_INPUTS`. */
export interface ToOthers {
  readonly input: number;
  /** The router's. */
  readonly url: string;
}

export type FromOthers =
  | { readonly kind: "engines"; readonly good: string; readonly sglang: string; readonly mad: string }
  | { readonly kind: "answered"; readonly outcome: string };

/** Engines and a client in a thread of their own, whose work is no pause of this thread's. */
export interface Others {
  /** Base URLs. */
  readonly engines: { readonly good: string; readonly sglang: string; readonly mad: string };
  /** Sends an input; resolves with the outcome: the status, and what an error says. */
  send(input: number, url: string): Promise<string>;
  close(): void;
}

export async function startOthers(): Promise<Others> {
  let next = Promise.withResolvers<FromOthers>();
  const thread = startThread<ToOthers, FromOthers>(
    { url: new URL("./others_thread.ts", import.meta.url), bundled: "" },
    undefined,
    { message: (message) => next.resolve(message), crash: (reason) => next.reject(new Error(reason)) },
  );
  thread.keepAlive(true);
  const engines = await next.promise;
  if (engines.kind !== "engines") throw new Error(`The engines' thread said ${engines.kind}`);
  return {
    engines,
    async send(input, url) {
      next = Promise.withResolvers();
      thread.post({ input, url });
      const answer = await next.promise;
      return answer.kind === "answered" ? answer.outcome : "";
    },
    close: () => thread.terminate(),
  };
}
