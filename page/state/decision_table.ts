import { fieldOf, listField, numberAt, textField, textsField } from "./json_fields.ts";
import type { DecisionView } from "./run_view.ts";

/** One compared pair of answers. */
export interface PairFigure {
  readonly of: readonly string[];
  /** Undefined where it could not be had in time. */
  readonly value: number | undefined;
}

/** An agent's part in a decision. */
export interface MemberFigure {
  readonly agent: string;
  /** Its final answer as it was read; empty for none. */
  readonly answer: string;
  /** Undefined where the metric looks at none. */
  readonly confidence: number | undefined;
}

/** A decision in a form to be looked at. */
export interface DecisionTable {
  readonly members: readonly MemberFigure[];
  readonly similarities: readonly PairFigure[];
  readonly verdicts: readonly PairFigure[];
  /** Agents that say the same, the largest group first. */
  readonly groups: readonly (readonly string[])[];
  /** All other figures by their names. */
  readonly figures: readonly (readonly [name: string, value: number | string | boolean])[];
}

/** Names of figures that have a place of their own, or are none. */
const SHOWN = ["exit", "answers", "confidences", "similarities", "verdicts", "groups", "votes", "scorer"];

/** The figures of a decision; `arrived`: the agents that had answered, in that order. */
export function decisionTable({ data }: DecisionView, arrived: readonly string[]): DecisionTable {
  const votes = listField(data, "votes");
  const answers = listField(data, "answers");
  const confidences = listField(data, "confidences");
  const named = confidences.map((one) => textField(one, "agent"));
  const names = named.length > 0 ? named : arrived.slice(0, answers.length);
  const voters = votes.filter((vote) => textField(vote, "agent") !== "").map((vote): MemberFigure => ({
    agent: textField(vote, "agent"),
    answer: textField(vote, "text"),
    confidence: undefined,
  }));
  const members = names.map((agent, at): MemberFigure => ({
    agent,
    answer: textField(answers[at], "text"),
    confidence: numberAt(confidences[at], "confidence"),
  }));
  const groups = listField(data, "groups").map((_, at) => textsField(data, "groups", at));
  return {
    members: voters.length > 0 ? voters : members,
    similarities: pairsOf(data, "similarities", "value"),
    verdicts: pairsOf(data, "verdicts", "yes"),
    groups: groups.toSorted((a, b) => b.length - a.length),
    figures: figuresIn(data),
  };
}

function pairsOf(data: unknown, list: string, value: string): readonly PairFigure[] {
  return listField(data, list).map((pair) => ({ of: textsField(pair, "of"), value: numberAt(pair, value) }));
}

function figuresIn(data: unknown): DecisionTable["figures"] {
  const entries = typeof data === "object" && data !== null ? Object.entries(data) : [];
  return entries.flatMap(([name, value]) => {
    if (SHOWN.includes(name)) return [];
    if (typeof value === "number" || typeof value === "string" || typeof value === "boolean") {
      return [[name, value] as const];
    }
    const share = numberAt(fieldOf(value), "share");
    return share === undefined ? [] : [[`${name}: share`, share] as const];
  });
}

/** Agents of a cluster in the order in which they had answered by a time; for undefined, of all clusters. */
export function arrivedBy(
  agents: readonly { readonly id: string; readonly phase: string; readonly endedMs: number | undefined }[],
  members: readonly string[],
  atMs: number,
): readonly string[] {
  return agents
    .filter(({ id, phase, endedMs = Infinity }) =>
      members.includes(id) && phase === "done" && endedMs <= atMs
    )
    .toSorted((a, b) => (a.endedMs ?? 0) - (b.endedMs ?? 0))
    .map(({ id }) => id);
}

/** An agent's confidence as the last decision that looked at it has it; undefined where none did. */
export function confidenceOfAgent(decisions: readonly DecisionView[], agent: string): number | undefined {
  const found = decisions.flatMap(({ data }) => listField(data, "confidences"))
    .findLast((one) => textField(one, "agent") === agent);
  return numberAt(found, "confidence");
}
