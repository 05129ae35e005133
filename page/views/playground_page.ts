import { html } from "htm/preact";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AskedModel } from "./asked_model.ts";
import type { PageContext } from "./page_context.ts";
import { problem, valueOf } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { listField, textField } from "../state/json_fields.ts";

const MODELS_POLL_MS = 30_000;

/** A question that was asked, and of whom. */
interface Turn {
  readonly question: string;
  readonly models: readonly string[];
  readonly stop: AbortController;
}

/** Asks a model, or two at once, and shows the runs that answer as they go on. */
export function PlaygroundPage({ page }: { readonly page: PageContext }): VNode {
  const { api } = page;
  const models = usePolled((signal) => api.json("/v1/models", { signal }), {
    everyMs: MODELS_POLL_MS,
    key: "models",
  });
  const [chosen, setChosen] = useState("");
  const [also, setAlso] = useState("");
  const [question, setQuestion] = useState("");
  const [turn, setTurn] = useState<Turn>();
  const [open, setOpen] = useState(0);
  const [turns, setTurns] = useState(0);
  const last = useRef<Turn | undefined>(undefined);
  useEffect(() => () => last.current?.stop.abort(), []);
  const names = modelNames(models.value);
  const model = names.some(([name]) => name === chosen) ? chosen : names[0]?.[0] ?? "";
  const onSubmit = (event: Event) => {
    event.preventDefault();
    last.current?.stop.abort();
    const asked = also === "" ? [model] : [model, also];
    last.current = { question, models: asked, stop: new AbortController() };
    setTurn(last.current);
    setTurns(turns + 1);
    setOpen(asked.length);
  };
  const onStop = () => {
    last.current?.stop.abort();
    setOpen(0);
  };
  return html`
    <h1>Playground</h1>
        ${problem(models.error, page)}
        <form onSubmit=${onSubmit}>
      <label for="question">Question</label>
      <textarea id="question" rows="3" required value=${question}
        onInput=${(event: Event) => setQuestion(valueOf(event))} onKeyDown=${submitByKey}></textarea>
      <div class="row">
        <label>Model <select value=${model} onChange=${(event: Event) => setChosen(valueOf(event))}>${names
          .map(optionOf)}</select></label>
        <label>Beside it <select id="also" value=${also} onChange=${(event: Event) =>
          setAlso(valueOf(event))}>
              <option value="">nobody</option>${names.map(optionOf)}</select></label>
        <button class="primary" type="submit" disabled=${open > 0 || model === ""}>Ask</button>
        <button type="button" disabled=${open === 0} onClick=${onStop}>Stop</button>
      </div>
    </form>
        ${turn === undefined
          ? null
          : html`<div class=${turn.models.length > 1 ? "pair" : ""}>${
            turn.models.map((name, at) =>
              html`
                <${AskedModel} key=${`${turns} ${at}`} page=${page} model=${name} question=${turn
                  .question} signal=${turn.stop.signal}
                  onEnd=${() => turn === last.current && setOpen((count) => Math.max(0, count - 1))} />
              `
            )
          }</div>`}
  `;
}

function optionOf([name, kind]: readonly [name: string, kind: string]): VNode {
  return html`<option value=${name}>${name} (${kind})</option>`;
}

function submitByKey(event: KeyboardEvent): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  if (event.currentTarget instanceof HTMLTextAreaElement) event.currentTarget.form?.requestSubmit();
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
