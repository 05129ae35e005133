import { html } from "htm/preact";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AgentDetail } from "./agent_detail.ts";
import type { PageContext } from "./page_context.ts";
import { problem, valueOf } from "./problem.ts";
import { RunFacts } from "./run_facts.ts";
import { RunTree } from "./run_tree.ts";
import { usePolled } from "./use_polled.ts";
import { type Api, eventsIn } from "../client/api.ts";
import { followRun, runOfRequest } from "../client/follow_run.ts";
import { listField, textField } from "../state/json_fields.ts";
import type { RunView } from "../state/run_view.ts";

const MODELS_POLL_MS = 30_000;

/** A question on its way. */
interface Asked {
  readonly answer: string;
  readonly run: RunView | undefined;
  readonly error: Error | undefined;
  readonly busy: boolean;
}

const NOTHING: Asked = { answer: "", run: undefined, error: undefined, busy: false };

/** Asks a model, and shows the run that answers as it goes on. */
export function PlaygroundPage({ page }: { readonly page: PageContext }): VNode {
  const { api } = page;
  const models = usePolled((signal) => api.json("/v1/models", { signal }), {
    everyMs: MODELS_POLL_MS,
    key: "models",
  });
  const [chosen, setChosen] = useState("");
  const [question, setQuestion] = useState("");
  const [selected, setSelected] = useState("");
  const [asked, setAsked] = useState<Asked>(NOTHING);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const names = modelNames(models.value);
  const model = names.some(([name]) => name === chosen) ? chosen : names[0]?.[0] ?? "";
  const onSubmit = (event: Event) => {
    event.preventDefault();
    stop.current.abort();
    const { signal } = stop.current = new AbortController();
    setSelected("");
    setAsked({ ...NOTHING, busy: true });
    const change = (part: Partial<Asked>) => signal.aborted || setAsked((before) => ({ ...before, ...part }));
    void ask(api, { model, question, signal, change });
  };
  const onStop = () => {
    stop.current.abort();
    setAsked((before) => ({ ...before, busy: false }));
  };
  return html`
    <h1>Playground</h1>
        ${problem(models.error, page)}
        <form onSubmit=${onSubmit}>
      <label for="question">Question</label>
      <textarea id="question" rows="3" required value=${question}
        onInput=${(event: Event) => setQuestion(valueOf(event))}
        onKeyDown=${(event: KeyboardEvent) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          if (event.currentTarget instanceof HTMLTextAreaElement) event.currentTarget.form?.requestSubmit();
        }}></textarea>
      <div class="row">
        <label>Model <select value=${model} onChange=${(event: Event) => setChosen(valueOf(event))}>
              ${names.map(([name, kind]) => html`<option value=${name}>${name} (${kind})</option>`)}
            </select></label>
        <button class="primary" type="submit" disabled=${asked.busy || model === ""}>Ask</button>
        <button type="button" disabled=${!asked.busy} onClick=${onStop}>Stop</button>
      </div>
    </form>
        ${problem(asked.error, page)}
        ${answerOf(asked)}
        ${asked.run === undefined ? null : html`
          <${RunFacts} run=${asked.run} link />
          <${RunTree} agents=${asked.run.agents} selected=${selected} onSelect=${setSelected} />
          <${AgentDetail} run=${asked.run} agent=${selected} />
        `}
  `;
}

function answerOf({ answer, busy }: Asked): VNode | null {
  if (answer === "" && !busy) return null;
  return html`
    <section aria-label="Answer" aria-busy=${busy}>
      <h2>Answer</h2>
      <div class="answer text" role="log" aria-live="polite">${answer || "…"}</div>
    </section>
  `;
}

/** Names of models and what they are, the virtual ones first. */
function modelNames(models: unknown): readonly (readonly [name: string, kind: string])[] {
  const all = listField(models, "data").map((model) =>
    [textField(model, "id"), textField(model, "owned_by")] as const
  );
  const isTree = (owner: string) => owner === "canopy";
  return [
    ...all.filter(([, owner]) => isTree(owner)).map(([name]) => [name, "tree"] as const),
    ...all.filter(([, owner]) => !isTree(owner)),
  ];
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
