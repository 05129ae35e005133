import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { listModels } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, definitions, textColumns } from "../kit/terminal.ts";
import { ask, type Conversation, reportAnswer } from "./conversation.ts";

const COMMANDS: readonly (readonly [string, string])[] = [
  ["/help", "Show these commands"],
  ["/model [NAME]", "Ask another model, or list them: a graph's modes are models, too (/mode is the same)"],
  ["/show", "Print what each agent says, or no longer"],
  ["/save FILE", "Write the conversation into a file: .json as messages, else as Markdown"],
  ["/exit", "End; Ctrl-D does it, too"],
  ['"""', "Begins and ends a question of several lines; so does \\ at a line's end"],
  ["Ctrl-C", "Stops an answer; at the prompt it ends the conversation"],
];

/** Questions and answers on a terminal until the user has had enough. A failed question does not end it. */
export async function converse(conversation: Conversation, io: Io): Promise<void> {
  const colors = colorsOf(io.out, io.env);
  const model = String(conversation.parameters.model);
  io.out.write(
    colors.dim(`${model} at ${conversation.server.url}; /help shows commands, /exit or Ctrl-D ends.\n`),
  );
  const history: string[] = [];
  while (!io.stop.aborted) {
    const question = await readQuestion(io, history);
    if (question === undefined || question === "/exit") return;
    if (question === "") continue;
    history.unshift(question);
    try {
      if (question.startsWith("/")) await obey(question, conversation, io);
      else await answer(conversation, question, io);
    } catch (error) {
      if (io.stop.aborted) return;
      io.err.write(`canopy chat: ${messageOf(error)}\n`);
    }
  }
}

/** One question, of one line or several; undefined at the end of the input. */
async function readQuestion(io: Io, history: readonly string[]): Promise<string | undefined> {
  let text = await io.ask("> ", history);
  if (text === undefined) return undefined;
  if (text.trimStart().startsWith('"""')) {
    text = text.trimStart().slice(3);
    while (!text.trimEnd().endsWith('"""')) {
      const more = await io.ask("… ");
      if (more === undefined) return undefined;
      text += `\n${more}`;
    }
    return text.trimEnd().slice(0, -3).trim();
  }
  while (text.endsWith("\\")) {
    const more = await io.ask("… ");
    if (more === undefined) return undefined;
    text = `${text.slice(0, -1)}\n${more}`;
  }
  return text.trim();
}

/** Asks; Ctrl-C stops this answer alone. What came of it stays in the conversation, a failed question does not. */
async function answer(conversation: Conversation, question: string, io: Io): Promise<void> {
  const stop = new AbortController();
  const release = io.onInterrupt(() => stop.abort(new Error("The answer was stopped")));
  const before = conversation.messages.length;
  try {
    const said = await ask(conversation, question, io, AbortSignal.any([io.stop, stop.signal]));
    if (said.stopped) io.out.write(colorsOf(io.out, io.env).dim("(stopped)\n"));
    if (said.stopped && said.text === "") conversation.messages.length = before;
    reportAnswer(said, io);
  } catch (error) {
    conversation.messages.length = before;
    throw error;
  } finally {
    release();
  }
}

async function obey(line: string, conversation: Conversation, io: Io): Promise<void> {
  const [command = "", ...words] = line.split(/\s+/);
  const argument = words.join(" ");
  switch (command) {
    case "/help":
      return io.out.write(`${definitions(COMMANDS, textColumns(io.out))}\n`);
    case "/model":
    case "/mode":
      return await chooseModel(argument, conversation, io);
    case "/show":
      conversation.show = !conversation.show;
      return io.out.write(
        conversation.show ? "What agents say is printed.\n" : "Agents' texts are not printed.\n",
      );
    case "/save":
      return save(argument, conversation, io);
    default:
      io.err.write(`There is no ${command}: /help shows the commands\n`);
  }
}

async function chooseModel(wanted: string, { parameters, server }: Conversation, io: Io): Promise<void> {
  const names = await listModels(io.transport, server, io.stop);
  if (wanted !== "" && names.includes(wanted)) {
    parameters.model = wanted;
    return io.out.write(`${wanted} is asked from now on.\n`);
  }
  if (wanted !== "") io.err.write(`There is no model ${wanted}.\n`);
  for (const name of names) io.out.write(`${name === parameters.model ? "*" : " "} ${name}\n`);
}

function save(path: string, { messages }: Conversation, io: Io): void {
  if (path === "") return io.err.write("Name a file: /save FILE\n");
  const text = path.endsWith(".json")
    ? `${JSON.stringify(messages, null, 2)}\n`
    : messages.map(({ role, content }) => `## ${role}\n\n${content}\n`).join("\n");
  writeFileSync(resolve(io.cwd, path), text, { flag: "wx" });
  io.out.write(`Saved ${messages.length} messages in ${path}.\n`);
}
