import { readFileSync } from "node:fs";
import type { Arity } from "../../../../cli/kit/router_flags/router_flag.ts";

/** One flag as a peer's help shows it. */
export interface HelpFlag {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly arity: Arity;
  /** Undefined for None, False and empty lists. */
  readonly there: string | undefined;
}

/** The flags in the recorded help text of a router (argparse's form). */
export function peerFlags(router: "sglang-router-0.3.2" | "smg-1.13.0"): HelpFlag[] {
  const path = new URL(`../../../fixtures/peers/help-${router}.txt`, import.meta.url);
  const text = readFileSync(path, "utf8");
  const entries = text.slice(text.indexOf("\noptions:")).split(/\n(?= {2}-)/).slice(1);
  return entries.flatMap((entry) => {
    const [head = "", ...rest] = entry.split(/ {2,}|\n/).filter((part) => part !== "");
    const [name = "", ...aliases] = [...head.replace(/\{[^}]*\}/g, "").matchAll(/--([a-z\d-]+)/g)].map((m) =>
      m[1]!
    );
    if (name === "help") return [];
    const first = head.split(", --")[0]!;
    const arity = /\S \[\w+ \.\.\.\]$/.test(first) && /^\S+ \w+ \[/.test(first)
      ? "some"
      : first.includes("...")
      ? "any"
      : first.includes(" ")
      ? "one"
      : "none";
    const there = [...rest.join(" ").matchAll(/\(default: ([^()]*)\)/g)].at(-1)?.[1];
    return [{ name, aliases, arity, there: NOTHING.includes(there ?? "None") ? undefined : there }];
  });
}

const NOTHING = ["None", "False", "[]", "{}"];
