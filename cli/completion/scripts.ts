import type { Command, Option } from "../kit/command.ts";

/** Words that may follow a path of commands, such as `bench load`; and the values of its options that have choices. */
interface Place {
  readonly path: string;
  readonly words: readonly string[];
  readonly choices: readonly (readonly [option: string, values: readonly string[]])[];
}

function placesOf(commands: readonly Command[]): Place[] {
  const names = commands.map(({ name }) => name);
  return [{ path: "", words: [...names, "help", "version"], choices: [] }, ...commands.flatMap(places)];
}

function places(command: Command): Place[] {
  const group = command.commands ?? [];
  const short = group.map(({ name }) => name.slice(command.name.length + 1));
  const options = Object.entries<Option>(command.options);
  const place = {
    path: command.name,
    words: [...short, ...options.map(([name]) => `--${name}`), "--help"],
    choices: options.flatMap(([name, { choices }]) =>
      choices === undefined ? [] : [[`--${name}`, choices] as const]
    ),
  };
  return [place, ...group.flatMap(places)];
}

/** For bash, and for zsh with `bashcompinit`: words by command, choices by option, else files. */
export function shellScript(commands: readonly Command[]): string {
  const all = placesOf(commands);
  const words = all.map(({ path, words }) => `    '${path}') echo '${words.join(" ")}' ;;`);
  const choices = all.flatMap(({ path, choices }) =>
    choices.map(([option, values]) => `    '${path} ${option}') echo '${values.join(" ")}' ;;`)
  );
  return `_canopy_words() {
  case "$1" in
${words.join("\n")}
  esac
}
_canopy_choices() {
  case "$1" in
${choices.join("\n")}
  esac
}
_canopy() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" place="" found
  if [ "$COMP_CWORD" -gt 1 ]; then place="\${COMP_WORDS[1]}"; fi
  if [ "$COMP_CWORD" -gt 2 ] && [ -n "$(_canopy_words "$place \${COMP_WORDS[2]}")" ]; then
    place="$place \${COMP_WORDS[2]}"
  fi
  found="$(_canopy_choices "$place $before")"
  if [ -z "$found" ]; then found="$(_canopy_words "$place")"; fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o default -F _canopy canopy
`;
}

/** For fish: commands and options with their help. */
export function fishScript(commands: readonly Command[]): string {
  const text = (value: string) => `'${value.replace(/[\\']/g, "\\$&")}'`;
  const lines = commands.flatMap((command) => {
    const group = command.commands ?? [];
    const inside = `-n ${text(`__fish_seen_subcommand_from ${command.name}`)}`;
    return [
      `complete -c canopy -n __fish_use_subcommand -a ${command.name} -d ${text(command.summary)}`,
      ...group.map(({ name, summary }) =>
        `complete -c canopy ${inside} -a ${name.slice(command.name.length + 1)} -d ${text(summary)}`
      ),
      ...optionLines(inside, command.options),
      ...group.flatMap(({ name, options }) => {
        const both = name.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
        return optionLines(`-n ${text(both)}`, options);
      }),
    ];
  });
  return `${lines.join("\n")}\n`;

  function optionLines(condition: string, options: Command["options"]): string[] {
    return Object.entries<Option>(options).map(([name, { type, help, choices }]) => {
      const value = type === "flag"
        ? ""
        : choices === undefined
        ? " -r"
        : ` -x -a ${text(choices.join(" "))}`;
      return `complete -c canopy ${condition} -l ${name}${value} -d ${text(help)}`;
    });
  }
}
