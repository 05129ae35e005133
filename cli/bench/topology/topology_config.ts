import {
  candidateGraph,
  type TopologyCandidate,
  topologyModels,
} from "../../../bench/experiments/topology/candidates.ts";
import { TOPOLOGY_FIGURES } from "../../../bench/experiments/topology/outcome_figures.ts";
import type { TopologySearch } from "../../../bench/experiments/topology/topology.ts";
import {
  TOPOLOGY_FIGURE_NAMES,
  topologyBoundsText,
  topologyFigureText,
} from "../../../bench/report/topology_report.ts";

/** Name of the recommended graph in its configuration. */
export const RECOMMENDED_GRAPH = "moa";

/** Options of `topologyConfigText`. */
export interface TopologyConfigOptions {
  readonly candidate: TopologyCandidate;
  readonly search: TopologySearch;
  readonly serving: "sglang-pd" | "sglang";
  readonly origin: string;
  /** The workload, or the file of records. */
  readonly asked: string;
}

/** Models of the paper's sizes; others are named by their keys. */
const MODEL_IDS: Readonly<Record<string, string>> = {
  "4b": "Qwen/Qwen3-VL-4B-Instruct",
  "8b": "Qwen/Qwen3-VL-8B-Instruct",
  "32b": "Qwen/Qwen3-VL-32B-Instruct",
};

const LINE_LENGTH = 110;
const FIRST_PORT = 30_000;
const FIRST_BOOTSTRAP_PORT = 8_998;

/** The recommendation as a configuration in JSON with comments, which say where it comes from. */
export function topologyConfigText(options: TopologyConfigOptions): string {
  const { candidate, serving } = options;
  const url = (port: number) => `http://127.0.0.1:${FIRST_PORT + port}`;
  const models = Object.fromEntries(
    topologyModels(candidate).map((name, at) => [name, {
      model: MODEL_IDS[name] ?? name,
      engine: serving,
      workers: serving === "sglang"
        ? [url(at)]
        : [{ prefill: url(2 * at), bootstrap_port: FIRST_BOOTSTRAP_PORT + at, decode: url(2 * at + 1) }],
    }]),
  );
  const config = { models, graphs: { [RECOMMENDED_GRAPH]: candidateGraph(candidate) } };
  const comments = commentsOf(options).map((line) => `// ${line}\n`).join("");
  return `${comments}${jsonText(config, "")}\n`;
}

/** JSON with what fits a line on one. */
function jsonText(value: unknown, indent: string): string {
  const line = JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, " ")
    .replaceAll("[ ", "[").replaceAll(" ]", "]");
  if (indent.length + line.length <= LINE_LENGTH || typeof value !== "object" || value === null) return line;
  const inner = `${indent}  `;
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Object.entries(value).filter(([, part]) => part !== undefined).map(([key, part]) =>
    `${inner}${Array.isArray(value) ? "" : `${JSON.stringify(key)}: `}${jsonText(part, inner)}`
  );
  return `${open}\n${parts.join(",\n")}\n${indent}${close}`;
}

function commentsOf({ candidate, search, origin, asked }: TopologyConfigOptions): string[] {
  const { recommended, chosenOn, heldOut, next, candidates, budget } = search;
  const limits = [
    ...budget.latencyMs === undefined ? [] : [`mean latency at most ${budget.latencyMs} ms`],
    ...budget.tokens === undefined ? [] : [`at most ${budget.tokens} tokens a question`],
  ];
  return [
    `Recommended by canopy bench topology: ${candidate.name}.`,
    `${origin}; questions of ${asked}.`,
    `Budget: ${
      limits.join(", ") || "none"
    }. Chosen from ${candidates.length} candidates on ${chosenOn} questions.`,
    ...recommended === undefined ? [] : [
      `Predicted from n = ${heldOut} other questions (95 % interval each), and the bounds that all means of a run of ` +
      `${next} fresh questions keep with a probability of 95 %:`,
      ...TOPOLOGY_FIGURES.map((figure) =>
        `  ${TOPOLOGY_FIGURE_NAMES[figure]}: ${topologyFigureText(figure, recommended.means[figure])} (${
          topologyBoundsText(figure, recommended.intervals[figure])
        }); next run ${topologyBoundsText(figure, recommended.next[figure])}`
      ),
    ],
    "Edit the models and workers: one URL for each server, or pair; several share the load.",
  ];
}
