import { html } from "htm/preact";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { AgentDetail } from "./run/agent_detail.ts";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { RunFacts } from "./run/run_facts.ts";
import { RunTree } from "./run/run_tree.ts";
import { type Api, eventsIn } from "../client/api.ts";
import { followRun, runOfRequest } from "../client/follow_run.ts";
import { textField } from "../state/json_fields.ts";
import type { RunView } from "../state/run_view.ts";

/** An answer on its way. */
interface Asked {
  readonly answer: string;
  readonly run: RunView | undefined;
  readonly error: Error | undefined;
  readonly busy: boolean;
}

/** Options of `AskedModel`. */
interface AskedModelOptions {
  readonly page: PageContext;
  readonly model: string;
  readonly question: string;
  /** Aborts when nobody wants the answer any more. */
  readonly signal: AbortSignal;
  /** Called once, when nothing more comes. */
  readonly onEnd: () => void;
}

/** Asks one model once, and shows the answer and the run that writes it as they come. */
export function AskedModel({ page, model, question, signal, onEnd }: AskedModelOptions): VNode {
  const [{ answer, run, error, busy }, setAsked] = useState<Asked>({
    answer: "",
    run: undefined,
    error: undefined,
    busy: true,
  });
  const [selected, setSelected] = useState("");
  useEffect(() => {
    const end = () => setAsked((before) => ({ ...before, busy: false }));
    signal.addEventListener("abort", end, { once: true });
    const change = (part: Partial<Asked>) => signal.aborted || setAsked((before) => ({ ...before, ...part }));
    void ask(page.api, { model, question, signal, change }).finally(onEnd);
    return () => signal.removeEventListener("abort", end);
  }, [signal]);
  return html`<div>
    ${problem(error, page)}
    ${
    answer === "" && !busy ? null : html`
      <section aria-label=${`Answer of ${model}`} aria-busy=${busy}>
        <h2>Answer <small><bdi>${model}</bdi></small></h2>
        <div class="answer text" role="log" aria-live="polite">${answer || "…"}</div>
      </section>
    `
  }
    ${
    run === undefined ? null : html`
      <${RunFacts} run=${run} link />
      <${RunTree} agents=${run.agents} selected=${selected} onSelect=${setSelected} />
      <${AgentDetail} run=${run} agent=${selected} />
    `
  }
  </div>`;
}

/** Streams the answer, and beside it the run, which is found by the request's id before the answer begins. */
async function ask(api: Api, { model, question, signal, change }: {
  readonly model: string;
  readonly question: string;
  readonly signal: AbortSignal;
  readonly change: (part: Partial<Asked>) => void;
}): Promise<void> {
  const requestId = `page-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
  const answered = new AbortController();
  const show = (run: RunView) => change({ run });
  const followed = runOfRequest(api, requestId, AbortSignal.any([signal, answered.signal]))
    .then((id) => id === undefined ? undefined : followRun(api, id, { signal, show }))
    .catch((error) => {
      // The answer says what went wrong; who only has no run to look at has lost nothing.
      if (!answered.signal.aborted) change({ error: asError(error) });
    });
  try {
    const response = await api.ask("/v1/chat/completions", {
      method: "POST",
      headers: { "x-request-id": requestId },
      body: { model, stream: true, messages: [{ role: "user", content: question }] },
      signal,
    });
    // An engine model has no run.
    if (response.headers.get("x-canopy-run-id") === null) answered.abort();
    let answer = "";
    for await (const event of eventsIn(response)) {
      answer += textField(event, "choices", 0, "delta", "content");
      change({ answer });
    }
    await followed;
  } catch (error) {
    change({ error: asError(error) });
  } finally {
    answered.abort();
    change({ busy: false });
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
