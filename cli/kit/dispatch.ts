import { CanopyError, messageOf } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import { UsageError } from "./args.ts";
import type { Command } from "./command.ts";
import { exitCodeOf, type Io } from "./io.ts";
import { definitions, paragraphs, textColumns } from "./terminal.ts";
import { version } from "./version.ts";

/**
 * Finds the command that a command line names and runs it; gives the exit code: 0 fine, 1 failed, 2 wrong usage, 130
 * when Ctrl-C has cut it short.
 */
export async function runCommand(
  commands: readonly Command[],
  args: readonly string[],
  io: Io,
): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined) {
    io.err.write(overview(commands, textColumns(io.err)));
    return 2;
  }
  if (name === "--version" || name === "-V" || name === "version") {
    io.out.write(`canopy ${version}\n`);
    return 0;
  }
  if (name === "--help" || name === "-h" || name === "help") {
    const command = commands.find((command) => command.name === rest[0]);
    if (rest[0] !== undefined && command === undefined) return unknownCommand(commands, rest[0], io);
    const columns = textColumns(io.out);
    io.out.write(command === undefined ? overview(commands, columns) : command.help(columns));
    return 0;
  }
  const command = commands.find((command) => command.name === name);
  if (command === undefined) return unknownCommand(commands, name, io);
  try {
    return await command.run(rest, io);
  } catch (error) {
    if (error instanceof UsageError) {
      io.err.write(`canopy ${name}: ${error.message} (see "canopy ${name} --help")\n`);
      return 2;
    }
    const isStopped = io.stop.aborted;
    const sentence = isStopped && error === io.stop.reason ? "stopped" : sentenceOf(error, io);
    io.err.write(`canopy ${name}: ${sentence}\n`);
    return isStopped ? exitCodeOf(io.stop.reason) : 1;
  }
}

function unknownCommand(commands: readonly Command[], name: string, io: Io): number {
  const suggestion = nearest(name, commands.map((command) => command.name));
  const hint = suggestion === undefined ? 'see "canopy --help"' : `did you mean "canopy ${suggestion}"?`;
  io.err.write(`canopy: Unknown ${name.startsWith("-") ? "option" : "command"} ${name}: ${hint}\n`);
  return 2;
}

/** Errors that are ours are a sentence; of others the stack is wanted when CANOPY_DEBUG is set. */
function sentenceOf(error: unknown, io: Io): string {
  if (!CanopyError.is(error) && io.env.CANOPY_DEBUG !== undefined && error instanceof Error) {
    return error.stack ?? error.message;
  }
  return messageOf(error);
}

function overview(commands: readonly Command[], columns: number): string {
  const rows = commands.map((command): [string, string] => [command.name, command.summary]);
  return `${paragraphs("Canopy serves a tree of LLM agents as one OpenAI-compatible model.", columns)}

Usage: canopy COMMAND [arguments] [options]

Commands:
${definitions(rows, columns)}

Options:
  -h, --help     Show this help, or with a command its help
  -V, --version  Show the version

Exit codes: 0 fine, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.
`;
}
