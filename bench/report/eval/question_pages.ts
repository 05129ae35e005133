import { agentLayers, answerPath } from "../../evaluation/answer_path.ts";
import type { AnswerRun, RunAgent, RunNote } from "../../evaluation/answer_run.ts";
import type { EvalRecord, EvalSet } from "../../evaluation/eval_record.ts";
import type { EvalQuestion } from "../../datasets/data_set.ts";
import { escapedHtml, STYLE } from "../html.ts";
import { countText, durationText } from "../report.ts";

/** What pages are made of. */
export interface QuestionPagesOptions {
  /** Those that count. */
  readonly records: readonly EvalRecord[];
  readonly sets: readonly EvalSet[];
  readonly modes: readonly string[];
  /** Names of the sets for people. */
  readonly labels: ReadonlyMap<string, string>;
  /** As in the report. */
  readonly origin: string;
}

/** A page. */
export interface QuestionPage {
  /** In the pages' folder. */
  readonly path: string;
  readonly text: string;
}

/** Name of the page that lists all others. */
export const PAGE_INDEX = "index.html";

/**
 * A page for each question that was answered: the question, and of each answer the text, the tree with what its agents
 * wrote, and what was decided; folded, and without scripts. A further page lists them. All texts are escaped.
 */
export function questionPages(options: QuestionPagesOptions): QuestionPage[] {
  const { records, sets, labels, origin } = options;
  const byQuestion = Map.groupBy(records, ({ set, question }) => `${set}\0${question}`);
  const pages = sets.flatMap((set) =>
    set.questions.flatMap((question, index) => {
      const answers = byQuestion.get(`${set.name}\0${question.id}`);
      const path = `${set.name.replaceAll(/[^\w-]+/g, "_")}/${index + 1}.html`;
      return answers === undefined ? [] : [{ path, set, question, answers }];
    })
  );
  const head = pages.map(({ path, set, question, answers }) => ({
    path,
    text: pageOf(`${labels.get(set.name) ?? set.name}: ${question.id}`, [
      `<p class="origin">${escapedHtml(origin)}</p>`,
      `<p><a href="../${PAGE_INDEX}">All questions</a></p>`,
      questionPart(question),
      ...inOrder(answers, options).map(answerPart),
    ]),
  }));
  return [{ path: PAGE_INDEX, text: indexPage(pages, options) }, ...head];
}

interface AnsweredQuestion {
  readonly path: string;
  readonly set: EvalSet;
  readonly question: EvalQuestion;
  readonly answers: readonly EvalRecord[];
}

/** By mode, and then by repeat. */
function inOrder(answers: readonly EvalRecord[], { modes }: QuestionPagesOptions): EvalRecord[] {
  return [...answers].sort((a, b) => modes.indexOf(a.mode) - modes.indexOf(b.mode) || a.repeat - b.repeat);
}

function indexPage(pages: readonly AnsweredQuestion[], options: QuestionPagesOptions): string {
  const { modes, labels, origin } = options;
  const rows = pages.map(({ path, set, question, answers }) => {
    const cells = modes.map((mode) =>
      answers.filter((one) => one.mode === mode).map(({ outcome }) => MARKS[outcome]).join("")
    );
    return `<tr><td><a href="${escapedHtml(path)}">${escapedHtml(question.id)}</a></td><td>${
      escapedHtml(labels.get(set.name) ?? set.name)
    }</td>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
  });
  return pageOf("Questions", [
    `<p class="origin">${escapedHtml(origin)}</p>`,
    `<p>✓ right, ✗ wrong, ? ungradable; a mark for each repeat</p>`,
    `<div class="wide"><table><thead><tr>${
      ["question", "set", ...modes].map((name) => `<th>${escapedHtml(name)}</th>`).join("")
    }</tr></thead>\n<tbody>${rows.join("\n")}</tbody></table></div>`,
  ]);
}

const MARKS: Readonly<Record<EvalRecord["outcome"], string>> = { right: "✓", wrong: "✗", ungradable: "?" };

function questionPart({ question, options = [], answer }: EvalQuestion): string {
  const listed = options.map((option) => `<li>${escapedHtml(option)}</li>`).join("");
  return `<h2>Question</h2>\n<pre>${escapedHtml(question)}</pre>${
    listed === "" ? "" : `<ol type="A">${listed}</ol>`
  }${answer === "" ? "" : `\n<p>Right: <b>${escapedHtml(answer)}</b></p>`}`;
}

function answerPart(record: EvalRecord): string {
  const { mode, repeat, outcome, stated, unchecked, text, latencyMs, completionTokens, run } = record;
  const facts = [
    outcome,
    ...stated === null ? [] : [`states ${stated}`],
    ...(unchecked ?? null) === null ? [] : [String(unchecked)],
    durationText(latencyMs),
    `${countText(completionTokens)} tokens written`,
    ...run === undefined ? [] : [`run ${run.id}`],
  ];
  return `<h2>${MARKS[outcome]} ${escapedHtml(mode)}${repeat === 0 ? "" : `, repeat ${repeat + 1}`}</h2>
<p>${escapedHtml(facts.join("; "))}</p>
${folded("Answer", `<pre>${escapedHtml(text)}</pre>`)}
${run === undefined ? "" : runPart(run)}`;
}

function runPart(run: AnswerRun): string {
  const layers = agentLayers(run.agents);
  const path = new Set(answerPath(run).map(({ agent }) => agent));
  const lastMs = Math.max(1, ...run.agents.map(({ endedMs }) => endedMs ?? 0));
  const rows = [...run.agents].sort((a, b) => (layers.get(a.id) ?? 0) - (layers.get(b.id) ?? 0)).map((
    agent,
  ) => agentRow(agent, { layer: layers.get(agent.id) ?? 1, isOnPath: path.has(agent.id), lastMs }));
  const tree = `<div class="wide"><table class="tree"><thead><tr>${
    ["layer", "agent", "model", "state", "tokens", "first token", "end", "when it worked", "reads"]
      .map((name) => `<th>${name}</th>`).join("")
  }</tr></thead><tbody>${rows.join("\n")}</tbody></table></div>`;
  const texts = run.agents.filter(({ text }) => text !== "").map(({ id, model, text }) =>
    folded(`${id} (${model}): ${countText(text.length)} characters`, `<pre>${escapedHtml(text)}</pre>`)
  );
  return `${folded(`Tree: ${run.agents.length} agents; in bold what the answer waited for`, tree)}
${folded(`Texts: of ${texts.length} agents`, `<div class="texts">${texts.join("\n")}</div>`)}
${
    run.decisions.length === 0
      ? ""
      : folded(`Decisions: ${run.decisions.length}`, `<ul>${run.decisions.map(decisionPart).join("\n")}</ul>`)
  }`;
}

function agentRow(
  { id, model, state, reads, completionTokens, placedMs, firstTokenMs, endedMs }: RunAgent,
  { layer, isOnPath, lastMs }: {
    readonly layer: number;
    readonly isOnPath: boolean;
    readonly lastMs: number;
  },
): string {
  const part = (ms: number | null) => (100 * Math.min(1, Math.max(0, (ms ?? 0) / lastMs))).toFixed(1);
  const width = placedMs === null || endedMs === null
    ? "0"
    : (100 * Math.max(0, endedMs - placedMs) / lastMs).toFixed(1);
  const bar = `<i class="bar" style="margin-left:${part(placedMs)}%;width:${width}%"></i>`;
  const name = isOnPath ? `<b>${escapedHtml(id)}</b>` : escapedHtml(id);
  const cells = [
    String(layer),
    name,
    escapedHtml(model),
    escapedHtml(state),
    countText(completionTokens),
    durationText(firstTokenMs ?? NaN),
    durationText(endedMs ?? NaN),
    `<div class="bars">${bar}</div>`,
    `<div class="reads">${escapedHtml(reads.join(", "))}</div>`,
  ];
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
}

function decisionPart({ atMs, type, of, data }: RunNote): string {
  const figures = data === undefined ? "" : ` <code>${escapedHtml(JSON.stringify(data))}</code>`;
  return `<li>${durationText(atMs)} <b>${escapedHtml(type)}</b>${
    of === undefined ? "" : ` ${escapedHtml(of)}`
  }${figures}</li>`;
}

function folded(title: string, inside: string): string {
  return `<details><summary>${escapedHtml(title)}</summary>${inside}</details>`;
}

/** Nothing of a text may act, whatever is in it. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

function pageOf(title: string, parts: readonly string[]): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>${escapedHtml(title)}</title>
<style>${STYLE}${PAGE_STYLE}</style>
<h1>${escapedHtml(title)}</h1>
${parts.join("\n")}
</html>
`;
}

const PAGE_STYLE = `
pre { white-space: pre-wrap } summary { cursor: pointer } code { font-size: 12px; overflow-wrap: anywhere }
.texts { margin-left: 1rem } .reads { max-width: 22rem; white-space: normal; text-align: left }
.bars { width: 12rem; background: #f0f0f0 } .bar { display: block; height: .8rem; background: #0072b2 }
`;
