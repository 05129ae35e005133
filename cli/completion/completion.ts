import { UsageError } from "../kit/args.ts";
import { type Command, defineCommand } from "../kit/command.ts";
import { fishScript, shellScript } from "./scripts.ts";

const SCRIPTS = {
  bash: (commands: readonly Command[]) => shellScript(commands),
  zsh: (commands: readonly Command[]) =>
    `autoload -U +X bashcompinit && bashcompinit\n${shellScript(commands)}`,
  fish: fishScript,
} as const;

/** `canopy completion SHELL`: a script that completes these commands and their options. */
export function completionCommand(commands: readonly Command[]): Command {
  return defineCommand({
    name: "completion",
    summary: "Print a script that completes commands and options in bash, zsh or fish",
    arguments: "SHELL",
    maxArguments: 1,
    options: {},
    details: `Examples:
  source <(canopy completion bash)            in ~/.bashrc
  source <(canopy completion zsh)             in ~/.zshrc, behind compinit
  canopy completion fish | source             in ~/.config/fish/config.fish`,
    run: (_, [shell = ""], io) => {
      if (!Object.hasOwn(SCRIPTS, shell)) {
        const known = Object.keys(SCRIPTS).join(", ");
        throw new UsageError(`${shell === "" ? "No shell" : `Unknown shell ${shell}`}: name one of ${known}`);
      }
      io.out.write(SCRIPTS[shell as keyof typeof SCRIPTS](commands));
      return Promise.resolve(0);
    },
  });
}
