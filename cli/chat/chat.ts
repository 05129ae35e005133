import { CanopyError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { ask, type Conversation, reportAnswer } from "./conversation.ts";
import { converse } from "./converse.ts";
import { UsageError } from "../kit/args.ts";
import { getJson, listModels, postJson, type Server, serverUrl } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import { findConfigFile } from "../kit/config_file.ts";
import type { Io } from "../kit/io.ts";
import { reachableUrl, startRouter } from "../kit/router/local_router.ts";
import { configuredServer, DEFAULT_URL, ownKeyOf, URL_OPTION } from "../kit/server_place.ts";

/** `canopy chat`: asks a question, of a running server or of a configuration that is served for this one question. */
export const chatCommand = defineCommand({
  name: "chat",
  summary: "Ask a question, and see what each agent said",
  arguments: "[PROMPT]",
  maxArguments: 1,
  options: {
    prompt: { type: "text", value: "TEXT", help: "The question, as in MoA-vllm; the same as PROMPT" },
    show: { type: "flag", help: "Print what each agent said, as soon as it has said it" },
    json: { type: "flag", help: "Print the server's answer as JSON; with --show what its agents said, too" },
    model: { type: "text", value: "NAME", help: "Model to ask; by default moa, else the server's first" },
    ...URL_OPTION,
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
  details:
    `Without PROMPT the question is read from standard input; on a terminal it is a conversation (/help shows its
commands).
Without --url and --config, the server of the configuration in this folder (canopy.jsonc, MoA-vllm's configs.json)
is asked, or ${DEFAULT_URL} where there is none; when it is not running, the configuration is served for this.
The key of a server that wants one is taken from CANOPY_API_KEY, else for the folder's own from its configuration.

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
    if (values.json && io.canAsk && (values.prompt ?? positional) === undefined) {
      throw new UsageError("Option --json goes with a question: add PROMPT");
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
      else if (values.json) await printJson(conversation, prompt, io);
      else reportAnswer(await ask(conversation, prompt, io), io);
      return 0;
    } finally {
      await place.close();
    }
  },
});

/** Asks one question and prints the server's whole answer as JSON, with each agent's answer where `show` asks for it. */
async function printJson(
  { server, parameters, messages, show }: Conversation,
  prompt: string,
  io: Io,
): Promise<void> {
  const body: JsonObject = {
    ...parameters,
    messages: [...messages, { role: "user", content: prompt }],
    ...(show ? { canopy: { include: ["usage", "panel", "trace"] } } : {}),
  };
  const answer = await postJson(io.transport, server, { path: "/v1/chat/completions", body }, io.stop);
  io.out.write(`${JSON.stringify(answer, null, 2)}\n`);
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
  const named = values.url ?? (values.config === undefined ? io.env.CANOPY_URL : undefined);
  if (named !== undefined) {
    return {
      server: { url: serverUrl(named), apiKey: io.env.CANOPY_API_KEY },
      close: () => Promise.resolve(),
    };
  }
  const file = values.config ?? findConfigFile(io);
  const running = configuredServer(file, io);
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

async function startHere(config: Config, io: Io): Promise<Place> {
  const { server } = config;
  // The port for metrics is that of a service, which may be running; its certificate names another host.
  const own: Config = { ...config, server: { ...server, metrics: undefined, tls: undefined } };
  const { router, url } = await startRouter(own, io, { host: "127.0.0.1", port: 0 });
  return { server: { url: reachableUrl(url), apiKey: ownKeyOf(server) }, close: () => router.close() };
}

/** True also for a server that refuses the key, as it will say itself. */
async function answers(server: Server, io: Io): Promise<boolean> {
  try {
    await getJson(io.transport, server, "/v1/models", io.stop);
    return true;
  } catch (error) {
    return CanopyError.is(error) && error.code === "key_refused";
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
