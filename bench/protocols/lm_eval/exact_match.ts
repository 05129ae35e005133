/** What is removed from both sides before they are compared. */
export interface MatchRules {
  readonly removed?: readonly RegExp[] | undefined;
  readonly ignoreCase?: boolean | undefined;
  /** Of ASCII only. */
  readonly ignorePunctuation?: boolean | undefined;
}

/** The metric `exact_match` of lm-eval: both sides after the same removals, letter by letter. */
export function exactMatch(stated: string, gold: string, rules: MatchRules): boolean {
  return comparable(stated, rules) === comparable(gold, rules);
}

function comparable(text: string, { removed = [], ignoreCase, ignorePunctuation }: MatchRules): string {
  const kept = removed.reduce((left, pattern) => left.replaceAll(pattern, ""), text);
  const cased = ignoreCase === true ? kept.toLowerCase() : kept;
  return ignorePunctuation === true ? cased.replaceAll(/[!-/:-@[-`{-~]/gu, "") : cased;
}
