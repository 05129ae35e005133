import { nearest } from "../../base/nearest.ts";
import { UsageError } from "./args.ts";
import type { Command } from "./command.ts";
import { definitions, paragraphs, textColumns } from "./terminal.ts";

/** A command made of commands: `canopy NAME COMMAND`. */
export interface CommandGroup {
  readonly name: string;
  readonly summary: string;
  /** The help's word for one of the commands, such as `benchmark`. */
  readonly noun: string;
  /** A line that calls one of them, for the help. */
  readonly example: string;
  /** Their names begin with that of the group: `bench run`. */
  readonly commands: readonly Command[];
}

/** Makes a group one command, whose help lists the others. */
export function commandGroup({ name: group, summary, noun, example, commands }: CommandGroup): Command {
  const shortName = ({ name }: Command) => name.slice(group.length + 1);
  const help = (columns?: number) =>
    `${paragraphs(`${summary}.`, columns)}

Usage: canopy ${group} ${noun.toUpperCase()} [options]

${noun[0]!.toUpperCase()}${noun.slice(1)}s:
${definitions(commands.map((command) => [shortName(command), command.summary]), columns)}

With --help behind a ${noun} its options are shown.

Example:
  ${example}
`;
  return {
    name: group,
    summary,
    options: {},
    commands,
    help,
    run: async ([name, ...args], io) => {
      if (name === undefined || name === "--help" || name === "-h") {
        const output = name === undefined ? io.err : io.out;
        output.write(help(textColumns(output)));
        return name === undefined ? 2 : 0;
      }
      const command = commands.find((one) => shortName(one) === name);
      if (command !== undefined) return await command.run(args, io);
      const suggestion = nearest(name, commands.map(shortName));
      throw new UsageError(
        `Unknown ${noun} ${name}` + (suggestion === undefined ? "" : `: did you mean ${suggestion}?`),
      );
    },
  };
}
