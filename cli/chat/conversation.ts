import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { type Server, streamChat } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, oneLine, printable } from "../kit/terminal.ts";
import { AgentsPrinter } from "./agents_printer.ts";
import { FollowedRun } from "./followed_run.ts";
import { LiveTree } from "./live_tree.ts";

/** Questions and answers with one server. */
export interface Conversation {
  readonly server: Server;
  /** Of each request: the model, and what was set for all. */
  readonly parameters: JsonObject;
  /** Grows with every question and answer. */
  readonly messages: JsonObject[];
  /** Whether agents' texts are printed. */
  show: boolean;
}

/** An answer, whole or as far as it was when somebody stopped it. */
export interface SaidAnswer {
  readonly text: string;
  readonly usage: JsonObject | undefined;
  /** True when the signal has cut it short. */
  readonly stopped: boolean;
}

/** What shows an answer while it comes. */
interface Screen {
  /** Before the answer's first text. */
  begin(): Promise<void>;
  text(text: string): void;
  canopy(canopy: JsonObject): void;
  /** When no more comes. */
  end(answer: string): Promise<void>;
}

/**
 * Asks one question and prints the answer as it comes: on a terminal the run's agents before it, with `show` what each
 * of them said. An answer that `signal` stops is kept as far as it came. Throws what the server refuses.
 */
export async function ask(
  conversation: Conversation,
  question: string,
  io: Io,
  signal: AbortSignal = io.stop,
): Promise<SaidAnswer> {
  const { server, parameters, messages, show } = conversation;
  messages.push({ role: "user", content: question });
  const wantsRun = show || io.out.isTerminal;
  const run = wantsRun ? await FollowedRun.of(server, io) : undefined;
  const screen = screenOf({ server, run, show }, io);
  const include = show ? { canopy: { include: ["usage", "panel"] } } : {};
  const body: JsonObject = { ...parameters, messages: [...messages], ...include };
  let text = "";
  let usage: JsonObject | undefined;
  let stopped = false;
  try {
    for await (const event of streamChat(io.transport, server, body, signal, run?.requestId)) {
      if (event.type === "text") {
        if (text === "") await screen.begin();
        text += event.text;
        screen.text(event.text);
      } else if (event.type === "usage") usage = event.usage;
      else if (event.type === "canopy") screen.canopy(event.canopy);
    }
  } catch (error) {
    if (!signal.aborted || io.stop.aborted) throw error;
    stopped = true;
  } finally {
    await screen.end(text);
  }
  messages.push({ role: "assistant", content: text });
  return { text, usage, stopped };
}

function screenOf(
  { server, run, show }: { server: Server; run: FollowedRun | undefined; show: boolean },
  io: Io,
): Screen {
  // Terminals obey control characters; files get what was said.
  const clean = io.out.isTerminal ? printable : (text: string) => text;
  const newline = (answer: string) => io.out.write(answer.endsWith("\n") ? "" : "\n");
  if (!show) {
    const tree = run === undefined ? undefined : new LiveTree(run, io);
    return {
      begin: async () => await tree?.end(),
      text: (text) => io.out.write(clean(text)),
      canopy: () => {},
      end: async (answer) => {
        await tree?.end();
        newline(answer);
      },
    };
  }
  const printer = new AgentsPrinter({ server, io, run });
  return {
    begin: () => printer.beforeAnswer(),
    text: (text) => printer.holdsAnswer ? undefined : io.out.write(clean(text)),
    canopy: (canopy) => printer.panel(canopy),
    end: async (answer) => {
      await run?.end();
      if (printer.holdsAnswer) {
        printer.printPanel();
        io.out.write(clean(answer));
      } else if (answer === "") await printer.beforeAnswer();
      newline(answer);
    },
  };
}

/** Most failed agents that are named. */
const MAX_NAMED = 4;

/** Says which agents the answer had to do without and why, and on a terminal what it took. */
export function reportAnswer({ usage }: SaidAnswer, io: Io): void {
  if (usage === undefined) return;
  reportFailures(usage, io);
  if (io.out.isTerminal) reportUsage(usage, io);
}

function reportFailures({ degraded }: JsonObject, io: Io): void {
  if (!isJsonObject(degraded) || !Array.isArray(degraded.failed)) return;
  const failed = degraded.failed.filter(isJsonObject);
  const count = failed.length + (typeof degraded.more === "number" ? degraded.more : 0);
  const named = failed.slice(0, MAX_NAMED).map(({ agent, model, reason }) =>
    `  ${agent} (${model}): ${oneLine(String(reason))}\n`
  );
  const more = count > MAX_NAMED ? `  and ${count - MAX_NAMED} more\n` : "";
  io.err.write(`${count} of ${degraded.agents} agents failed:\n${named.join("")}${more}`);
}

function reportUsage(usage: JsonObject, io: Io): void {
  const { prompt_tokens: read, completion_tokens: written } = usage;
  const details = isJsonObject(usage.prompt_tokens_details)
    ? usage.prompt_tokens_details.cached_tokens
    : undefined;
  const cached = typeof details === "number" && details > 0 ? ` (${details} cached)` : "";
  io.out.write(colorsOf(io.out, io.env).dim(`${read} tokens read${cached}, ${written} written\n`));
}
