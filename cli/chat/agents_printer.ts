import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, oneLine, printable, wrap } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import type { FollowedRun } from "./followed_run.ts";

/** One agent's answer as it is shown. */
interface Said {
  readonly agent: string;
  readonly heading: string;
  readonly text: string;
}

/** Lines of an agent's text on a terminal, unless all are wanted. */
const FOLDED_LINES = 12;

/**
 * Prints what each agent of a run says, as soon as it has said it, and a banner before the final answer, in
 * MoA-vllm's manner. Without a run to look into it takes the `canopy.panel` of the answer, which is held back until then.
 */
export class AgentsPrinter {
  readonly #io: Io;
  readonly #server: Server;
  readonly #run: FollowedRun | undefined;
  readonly #printed = new Set<string>();
  #panel: Said[] = [];

  /** `run`: undefined where runs cannot be read. */
  constructor({ server, io, run }: { server: Server; io: Io; run: FollowedRun | undefined }) {
    this.#io = io;
    this.#server = server;
    this.#run = run;
    run?.follow((record) => this.#show(record));
  }

  /** True when the agents' texts come after the answer only. */
  get holdsAnswer(): boolean {
    return this.#run === undefined;
  }

  /** Prints what has not been printed yet, then the banner. */
  async beforeAnswer(): Promise<void> {
    if (this.#run === undefined) return;
    await this.#run.end();
    const record = await this.#run.look();
    if (record !== undefined) this.#show(record);
    this.#banner();
  }

  /** Takes the panel from an answer's `canopy` object. */
  panel(canopy: JsonObject): void {
    const panel = Array.isArray(canopy.panel) ? canopy.panel : [];
    this.#panel = panel.filter(isJsonObject).map((agent) => ({
      agent: String(agent.agent),
      heading: `${agent.agent} (${agent.model})${endOf(agent)}`,
      text: typeof agent.text === "string" ? agent.text : "",
    }));
  }

  /** Prints the panel and the banner, where the answer was held back. */
  printPanel(): void {
    if (this.#panel.length === 0) {
      this.#io.err.write(`The server at ${this.#server.url} does not tell what its agents said.\n`);
    }
    for (const said of this.#panel) this.#print(said);
    this.#banner();
  }

  /** Prints the agents of a record that have ended since the last one. */
  #show(run: JsonObject): void {
    if (!Array.isArray(run.agents)) return;
    // The last agent is the root, whose text is the answer.
    const agents = run.agents.filter(isJsonObject).slice(0, -1);
    const ended = agents.filter((agent) => typeof agent.ended_at_ms === "number");
    ended.sort((a, b) => Number(a.ended_at_ms) - Number(b.ended_at_ms));
    const tokens = tokensByAgent(run);
    for (const agent of ended) {
      const id = String(agent.id);
      const tookMs = Number(agent.ended_at_ms) - Number(agent.started_at_ms ?? agent.ended_at_ms);
      const count = tokens.get(id);
      const facts = `${count === undefined ? "" : `${count} tokens, `}${seconds(tookMs)}`;
      this.#print({
        agent: id,
        heading: `${id} (${agent.model}): ${facts}${endOf(agent)}`,
        text: String(agent.text ?? ""),
      });
    }
  }

  #print(said: Said): void {
    if (this.#printed.has(said.agent)) return;
    this.#printed.add(said.agent);
    const colors = colorsOf(this.#io.out, this.#io.env);
    const text = this.#folded(printable(said.text).trim());
    this.#io.out.write(`${colors.cyan(`----- ${said.heading} -----`)}\n${text}\n\n`);
  }

  /** A long text's first lines, where somebody reads it on a terminal; files get all of it. */
  #folded(text: string): string {
    const { out, env } = this.#io;
    if (!out.isTerminal) return text;
    const lines = wrap(text, out.columns);
    const more = lines.length - FOLDED_LINES;
    if (more <= 1) return text;
    const note = colorsOf(out, env).dim(`… ${more} more lines; canopy chat --show > FILE has all`);
    return [...lines.slice(0, FOLDED_LINES), note].join("\n");
  }

  #banner(): void {
    this.#io.out.write(`${colorsOf(this.#io.out, this.#io.env).bold("===== FINAL ANSWER =====")}\n`);
  }
}

/** An agent's end, where it is not its answer: `, failed: the reason`. */
function endOf({ state, error }: JsonObject): string {
  if (state === "done") return "";
  return `, ${state}${state === "failed" && typeof error === "string" ? `: ${oneLine(error)}` : ""}`;
}

/** Completion tokens by agent's id. */
export function tokensByAgent(run: JsonObject): Map<string, number> {
  const agents = isJsonObject(run.usage) && Array.isArray(run.usage.agents) ? run.usage.agents : [];
  return new Map(
    agents.filter(isJsonObject).map((agent) => [String(agent.agent), Number(agent.completion_tokens)]),
  );
}
