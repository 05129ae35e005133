import { parseArgs, type ParsedArgs, readNumber, UsageError } from "./args.ts";
import type { Io } from "./io.ts";
import { definitions, paragraphs, textColumns } from "./terminal.ts";

/** One option of a command. */
export interface Option {
  readonly type: "flag" | "text" | "number" | "list";
  /** One line for the help. */
  readonly help: string;
  /** Name of the value in the help, such as `URL`; not for flags. */
  readonly value?: string;
  /** Other spellings; those of one letter are short options. */
  readonly alias?: readonly string[];
  /** The only values allowed. */
  readonly choices?: readonly string[];
  /** Bounds of a number, both included. */
  readonly min?: number;
  readonly max?: number;
  /** Numbers that need not be whole. */
  readonly fraction?: boolean;
}

/** The options of a command, by name. */
export type Options = Readonly<Record<string, Option>>;

type ValueOf<O extends Option> = O["type"] extends "flag" ? boolean
  : O["type"] extends "list" ? readonly string[]
  : O["type"] extends "number" ? number | undefined
  : O["choices"] extends readonly (infer Choice extends string)[] ? Choice | undefined
  : string | undefined;

/** The values of a command's options; absent flags are false, absent lists are empty. */
export type OptionValues<T extends Options> = { readonly [Name in keyof T]: ValueOf<T[Name]> };

/** One command of the program. */
export interface Command {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  /** Its options, for completions; a group has none of its own. */
  readonly options: Options;
  /** The commands of a group, named as `GROUP COMMAND`. */
  readonly commands?: readonly Command[];
  /** The whole help text, in lines of at most so many columns; without end by default. */
  help(columns?: number): string;
  /** Runs the command; gives the exit code. Throws `UsageError` for a wrong command line. */
  run(args: readonly string[], io: Io): Promise<number>;
}

/** Definition of a command. */
export interface CommandSpec<T extends Options> {
  readonly name: string;
  readonly summary: string;
  /** Positional arguments as the help shows them, such as `[FILE]`. */
  readonly arguments?: string;
  /** Most positional arguments. */
  readonly maxArguments: number;
  readonly options: T;
  /** Further paragraphs and examples of the help. */
  readonly details?: string;
  run(values: OptionValues<T>, positional: readonly string[], io: Io): Promise<number>;
}

/** Makes a command: its options become typed values, its help is generated from them. */
export function defineCommand<const T extends Options>(spec: CommandSpec<T>): Command {
  return {
    name: spec.name,
    summary: spec.summary,
    options: spec.options,
    help: (columns) => helpOf(spec, columns),
    run: async (args, io) => {
      const entries = Object.entries<Option>(spec.options);
      const namesOf = (...types: Option["type"][]) =>
        entries.filter(([, option]) => types.includes(option.type)).map(([name]) => name);
      const parsed = parseArgs(args, {
        boolean: [...namesOf("flag"), "help"],
        string: namesOf("text", "number", "list"),
        collect: namesOf("list"),
        alias: {
          help: ["h"],
          ...Object.fromEntries(entries.map(([name, option]) => [name, option.alias ?? []])),
        },
      });
      if (parsed.values.get("help") === true) {
        io.out.write(helpOf(spec, textColumns(io.out)));
        return 0;
      }
      if (parsed._.length > spec.maxArguments) {
        throw new UsageError(
          `Unexpected argument "${parsed._[spec.maxArguments]}": ${spec.name} takes ` +
            (spec.maxArguments === 0 ? "none" : `at most ${spec.maxArguments}`),
        );
      }
      return await spec.run(valuesOf(spec.options, parsed), parsed._, io);
    },
  };
}

function valuesOf<T extends Options>(options: T, parsed: ParsedArgs): OptionValues<T> {
  const values: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(options)) {
    const given = parsed.values.get(name);
    if (option.type === "flag") values[name] = given === true;
    else if (option.type === "list") {
      const list = Array.isArray(given) ? given.map(String) : [];
      for (const item of list) checkChoice(name, option, item);
      values[name] = list;
    } else if (given === undefined) values[name] = undefined;
    else if (option.type === "number") values[name] = readNumber(name, String(given), option);
    else {
      checkChoice(name, option, String(given));
      values[name] = String(given);
    }
  }
  // Each value was made for its option's type just above.
  return values as OptionValues<T>;
}

function checkChoice(name: string, option: Option, text: string): void {
  if (option.choices === undefined || option.choices.includes(text)) return;
  throw new UsageError(
    `Option --${name} must be one of ${option.choices.join(", ")}: current value is "${text}"`,
  );
}

function helpOf<T extends Options>(spec: CommandSpec<T>, columns?: number): string {
  const entries = Object.entries<Option>(spec.options);
  const usage = ["canopy", spec.name, spec.arguments, "[options]"].filter((part) => part !== undefined);
  const rows = entries.map(([name, option]): [string, string] => [spellings(name, option), helpLine(option)]);
  rows.push(["-h, --help", "Show this help"]);
  const parts = [
    paragraphs(`${spec.summary}.`, columns),
    `Usage: ${usage.join(" ")}`,
    `Options:\n${definitions(rows, columns)}`,
  ];
  if (spec.details !== undefined) parts.push(paragraphs(spec.details.trim(), columns));
  return parts.join("\n\n") + "\n";
}

function spellings(name: string, option: Option): string {
  const short = (option.alias ?? []).filter((alias) => alias.length === 1).map((alias) => `-${alias}, `).join(
    "",
  );
  return `${short}--${name}${option.type === "flag" ? "" : ` ${option.value ?? "VALUE"}`}`;
}

function helpLine(option: Option): string {
  const choices = option.choices === undefined ? "" : ` (${option.choices.join(", ")})`;
  return option.help + choices + (option.type === "list" ? " (repeatable)" : "");
}
