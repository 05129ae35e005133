import type { RouterFlag, RouterFlags } from "./router_flag.ts";
import { SGLANG_ROUTER_FLAGS } from "./sglang_router.ts";
import { OTHER_FLAGS, SMG_FLAGS } from "./smg.ts";

/** All flags of `canopy serve` that stand for those of another router, and what becomes of each. */
export const ROUTER_FLAGS: RouterFlags = { ...SGLANG_ROUTER_FLAGS, ...SMG_FLAGS, ...OTHER_FLAGS };

const NAMES = new Map(
  Object.entries(ROUTER_FLAGS).flatMap(([name, { aliases = [] }]) =>
    [name, ...aliases].map((spelling) => [spelling, name] as const)
  ),
);

/** Every spelling, without dashes. */
export const ROUTER_SPELLINGS: readonly string[] = [...NAMES.keys()];

/**
 * A flag by any of its spellings, or by the words that only one of them begins with, without dashes: argparse takes
 * such for the whole name, and scripts have `--eviction-interval`. Undefined for one that nobody knows.
 */
export function routerFlag(
  spelling: string,
): { readonly name: string; readonly flag: RouterFlag } | undefined {
  const name = NAMES.get(spelling) ?? nameBegunWith(`${spelling}-`);
  const flag = name === undefined ? undefined : ROUTER_FLAGS[name];
  return name === undefined || flag === undefined ? undefined : { name, flag };
}

function nameBegunWith(words: string): string | undefined {
  const [one, ...more] = new Set(
    [...NAMES].flatMap(([name, first]) => name.startsWith(words) ? [first] : []),
  );
  return more.length === 0 ? one : undefined;
}
