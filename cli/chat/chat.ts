import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { loadCheckedConfig, loadConfig } from "../../cfgs/load/load.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { AgentsPrinter } from "./agents_printer.ts";
import { UsageError } from "../kit/args.ts";
import { getJson, listModels, type Server, serverUrl, streamChat } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import { findConfigFile } from "../kit/config_file.ts";
import type { Io } from "../kit/io.ts";
import { reachableUrl, startRouter } from "../kit/router/local_router.ts";
import { colorsOf, oneLine, printable } from "../kit/terminal.ts";

const DEFAULT_URL = "http://127.0.0.1:8000";

/** `canopy chat`: asks a question, of a running server or of a configuration that is served for this one question. */
export const chatCommand = defineCommand({
  name: "chat",
  summary: "Ask a question, and see what each agent said",
  arguments: "[PROMPT]",
  maxArguments: 1,
  options: {
    prompt: { type: "text", value: "TEXT", help: "The question, as in MoA-vllm; the same as PROMPT" },
    show: { type: "flag", help: "Print what each agent said, as soon as it has said it" },
    model: { type: "text", value: "NAME", help: "Model to ask; by default moa, else the server's first" },
    url: {
      type: "text",
      value: "URL",
      help: `A running server; by default CANOPY_URL, else that of this folder`,
    },
    config: {
      type: "text",
      value: "FILE",
      help: "Serve this configuration for the question; no server needed",
    },
    system: { type: "text", value: "TEXT", help: "System message" },
    "max-tokens": { type: "number", value: "N", min: 1, help: "Longest answer in tokens" },
    temperature: { type: "number", value: "T", fraction: true, min: 0, max: 2, help: "Sampling temperature" },
    seed: { type: "number", value: "N", help: "Seed of the answer" },
  },
  details: `Without PROMPT the question is read from standard input; on a terminal it is a conversation.
Without --url and --config, the server of the configuration in this folder (canopy.jsonc, MoA-vllm's configs.json)
is asked, or ${DEFAULT_URL} where there is none; when it is not running, the configuration is served for this. The key of a server that wants one is taken from CANOPY_API_KEY.

Examples:
  canopy chat "Why is the sky blue?" --show
  canopy chat --prompt "Why is the sky blue?" --show --config configs.json`,
  run: async (values, [positional], io) => {
    if (values.prompt !== undefined && positional !== undefined) {
      throw new UsageError("The question is given twice: leave out PROMPT or --prompt");
    }
    if (values.url !== undefined && values.config !== undefined) {
      throw new UsageError("Options --url and --config cannot be used together: leave out one");
    }
    const prompt = values.prompt ?? positional ?? (io.canAsk ? undefined : (await io.readInput()).trim());
    if (prompt === "") throw new UsageError('No question: write canopy chat "QUESTION"');
    const place = await findServer(values, io);
    try {
      const model = await chooseModel(values.model, place.server, io);
      const parameters: JsonObject = { model };
      if (values["max-tokens"] !== undefined) parameters.max_tokens = values["max-tokens"];
      if (values.temperature !== undefined) parameters.temperature = values.temperature;
      if (values.seed !== undefined) parameters.seed = values.seed;
      const messages: JsonObject[] = [];
      if (values.system !== undefined) messages.push({ role: "system", content: values.system });
      const conversation: Conversation = { server: place.server, parameters, messages, show: values.show };
      if (prompt === undefined) await converse(conversation, io);
      else await ask(conversation, prompt, io);
      return 0;
    } finally {
      await place.close();
    }
  },
});

interface Conversation {
  readonly server: Server;
  readonly parameters: JsonObject;
  /** Grows with every question and answer. */
  readonly messages: JsonObject[];
  readonly show: boolean;
}

interface Place {
  readonly server: Server;
  close(): Promise<void>;
}

/** A server that was named, one that runs, or one that is started here for a local configuration. */
async function findServer(
  values: { readonly url: string | undefined; readonly config: string | undefined },
  io: Io,
): Promise<Place> {
  const apiKey = io.env.CANOPY_API_KEY;
  const named = values.url ?? (values.config === undefined ? io.env.CANOPY_URL : undefined);
  if (named !== undefined) {
    return {
      server: { url: serverUrl(named), apiKey },
      close: () => Promise.resolve(),
    };
  }
  const file = values.config ?? findConfigFile(io);
  const running: Server = { url: file === undefined ? DEFAULT_URL : urlOf(file, io), apiKey };
  if (values.config === undefined && await answers(running, io)) {
    return { server: running, close: () => Promise.resolve() };
  }
  if (file === undefined) {
    throw new CanopyError(
      `No server answers at ${DEFAULT_URL}, and there is no configuration in this folder: ` +
        `start one with "canopy serve FILE", or name one with --url`,
      { code: "no_server", status: 503 },
    );
  }
  return await startHere(loadCheckedConfig({ path: file, env: io.env }).config, io);
}

/** Where a configuration says that it is served; the usual place when it cannot be read, which is told later. */
function urlOf(file: string, io: Io): string {
  try {
    const { host, port } = loadConfig({ path: file, env: io.env, overrides: [] }).config.server;
    return reachableUrl(`http://${host.includes(":") ? `[${host}]` : host}:${port}`);
  } catch {
    return DEFAULT_URL;
  }
}

async function startHere(config: Config, io: Io): Promise<Place> {
  const { router, url } = await startRouter(config, io, { host: "127.0.0.1", port: 0 });
  const apiKey = config.server.admin_key ?? config.server.api_keys[0];
  return { server: { url: reachableUrl(url), apiKey }, close: () => router.close() };
}

async function answers(server: Server, io: Io): Promise<boolean> {
  try {
    await getJson(io.transport, server, "/v1/models", io.stop);
    return true;
  } catch {
    return false;
  }
}

async function chooseModel(wanted: string | undefined, server: Server, io: Io): Promise<string> {
  if (wanted !== undefined) return wanted;
  const names = await listModels(io.transport, server, io.stop);
  const name = names.includes("moa") ? "moa" : names[0];
  if (name !== undefined) return name;
  throw new CanopyError(`The server at ${server.url} serves no model: name one with --model`, {
    code: "no_model",
    status: 404,
  });
}

/** Questions and answers until the user has had enough. A failed question does not end the conversation. */
async function converse(conversation: Conversation, io: Io): Promise<void> {
  const colors = colorsOf(io.out, io.env);
  const model = String(conversation.parameters.model);
  io.out.write(colors.dim(`${model} at ${conversation.server.url}; an empty line or Ctrl-D ends.\n`));
  while (!io.stop.aborted) {
    const question = await io.ask("> ");
    if (question === undefined || question.trim() === "") return;
    try {
      await ask(conversation, question, io);
    } catch (error) {
      if (io.stop.aborted) return;
      conversation.messages.pop();
      io.err.write(`canopy chat: ${messageOf(error)}\n`);
    }
  }
}

/** Asks one question and prints the answer as it comes; with `show`, what each agent said before it. */
async function ask(conversation: Conversation, question: string, io: Io): Promise<void> {
  const { server, parameters, messages, show } = conversation;
  messages.push({ role: "user", content: question });
  const body: JsonObject = { ...parameters, messages: [...messages] };
  const printer = show
    ? await AgentsPrinter.start({ server, io, question, model: String(parameters.model) })
    : undefined;
  // Terminals obey control characters; files get what was said.
  const clean = io.out.isTerminal ? printable : (text: string) => text;
  let answer = "";
  let usage: JsonObject | undefined;
  try {
    const extended = show ? { ...body, canopy: { include: ["usage", "panel"] } } : body;
    for await (const event of streamChat(io.transport, server, extended, io.stop)) {
      if (event.type === "head") printer?.runStarted(event.runId);
      else if (event.type === "text") {
        if (answer === "") await printer?.beforeAnswer();
        answer += event.text;
        if (printer?.holdsAnswer !== true) io.out.write(clean(event.text));
      } else if (event.type === "usage") usage = event.usage;
      else printer?.panel(event.canopy);
    }
  } finally {
    await printer?.end();
  }
  if (printer?.holdsAnswer === true) {
    printer.printPanel();
    io.out.write(clean(answer));
  } else if (answer === "") await printer?.beforeAnswer();
  io.out.write(answer.endsWith("\n") ? "" : "\n");
  messages.push({ role: "assistant", content: answer });
  if (usage !== undefined) reportFailures(usage, io);
  if (io.out.isTerminal && usage !== undefined) reportUsage(usage, io);
}

/** Most failed agents that are named. */
const MAX_NAMED = 4;

/** Says which agents the answer had to do without, and why. */
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
