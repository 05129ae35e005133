import type { Command } from "../../cli/kit/command.ts";
import { pageHead } from "./markdown.ts";

/** Columns of the help texts. */
const COLUMNS = 100;
const HEAD = pageHead(
  "Command reference",
  "What `canopy COMMAND --help` says, of every command and group; made from the tables that parse the options (`deno task reference`).",
);

/** The page with the help of every command, those of groups behind their group. */
export function cliReference(commands: readonly Command[]): string {
  const parts = commands.flatMap((command) => [
    part("##", command),
    ...(command.commands ?? []).map((one) => part("###", one)),
  ]);
  return `${HEAD}\n${parts.join("\n")}`;
}

function part(level: string, command: Command): string {
  return `${level} canopy ${command.name}\n\n\`\`\`\n${command.help(COLUMNS).trimEnd()}\n\`\`\`\n`;
}
