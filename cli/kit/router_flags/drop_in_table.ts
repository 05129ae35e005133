import type { FlagVerdict, RouterFlag, RouterFlags } from "./router_flag.ts";
import { SGLANG_ROUTER_FLAGS } from "./sglang_router.ts";
import { OTHER_FLAGS, SMG_FLAGS } from "./smg.ts";

/** Tables of all flags and their fates, in Markdown, for docs/drop-in.md. */
export function dropInTables(): string {
  const smg = { ...Object.fromEntries(Object.entries(SGLANG_ROUTER_FLAGS).flatMap(aliasRows)), ...SMG_FLAGS };
  return `### sglang-router 0.3.2

${tableOf(SGLANG_ROUTER_FLAGS)}

### smg 1.13.0, beside those

${tableOf(smg)}

### Others

${tableOf(OTHER_FLAGS)}
`;
}

/** smg's own spellings of flags that it shares with sglang-router. */
function aliasRows([name, flag]: [string, RouterFlag]): [string, RouterFlag][] {
  return (flag.aliases ?? []).map((alias) => [
    alias,
    { ...flag, aliases: [], verdict: { ...flag.verdict, says: `as \`--${name}\`` } },
  ]);
}

function tableOf(flags: RouterFlags): string {
  const rows = Object.entries(flags).map(([name, flag]) => [
    [name, ...flag.aliases ?? []].map((spelling) => `\`--${spelling}${VALUES[flag.arity]}\``).join(", "),
    flag.there === undefined ? "" : `\`${flag.there}\``,
    KINDS[flag.verdict.kind],
    [flag.verdict.says, ...Object.entries(flag.values ?? {}).map(valueText)].join("; "),
  ]);
  const all = [["flag", "default", "here", ""], ...rows];
  const widths = [0, 1, 2, 3].map((at) => Math.max(3, ...all.map((row) => row[at]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, at) => cell.padEnd(widths[at]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(all[0]!), rule, ...all.slice(1).map(line)].join("\n");
}

const VALUES = { none: "", one: " X", some: " X …", any: " [X …]" } as const;
const KINDS = { honoured: "yes", noted: "noted", refused: "refused" } as const;

function valueText([value, verdict]: [string, FlagVerdict]): string {
  return `\`${value}\`: ${KINDS[verdict.kind]}, ${verdict.says}`;
}
