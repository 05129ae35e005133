/** A way to answer questions: a model or graph asked once, or a model asked several times. */
export type EvalMode =
  /** `model`: as the server lists it. */
  | { readonly kind: "once"; readonly name: string; readonly model: string }
  /** Answers are drawn until a budget is spent, and the one that most of them state counts. */
  | {
    readonly kind: "self-consistency";
    readonly name: string;
    readonly model: string;
    readonly budget: DrawBudget;
  }
  /** Of so many answers the one that the model itself finds likeliest, by mean log-probability, counts. */
  | { readonly kind: "best-of"; readonly name: string; readonly model: string; readonly answers: number };

/** Tokens or time that the first mode spent on the same question, or a number of answers. */
export type DrawBudget = "tokens" | "time" | { readonly answers: number };

/** Forms of modes, for people. */
export const MODE_FORMS =
  "a model or graph, single:MODEL, self-consistency@tokens:MODEL, self-consistency@time:MODEL, self-consistency@N:MODEL, best-of-N:MODEL";

/** A mode as it is written on a command line. Undefined for one that begins like a mode of several answers and is none. */
export function readMode(text: string): EvalMode | undefined {
  const [, form = "", model = ""] = /^(single|self-consistency[^:]*|best-of[^:]*):(.+)$/.exec(text) ?? [];
  if (form === "") {
    return /^(self-consistency|best-of-|single:)/.test(text)
      ? undefined
      : { kind: "once", name: text, model: text };
  }
  if (form === "single") return { kind: "once", name: text, model };
  const [, best] = /^best-of-(\d{1,4})$/.exec(form) ?? [];
  if (best !== undefined) {
    return Number(best) < 1 ? undefined : { kind: "best-of", name: text, model, answers: Number(best) };
  }
  const [, budget = ""] = /^self-consistency@(tokens|time|[1-9]\d{0,3})$/.exec(form) ?? [];
  if (budget === "") return undefined;
  return {
    kind: "self-consistency",
    name: text,
    model,
    budget: budget === "tokens" || budget === "time" ? budget : { answers: Number(budget) },
  };
}

/** True for a mode whose budget is what the first mode spent. */
export function needsReference(mode: EvalMode): boolean {
  return mode.kind === "self-consistency" && typeof mode.budget === "string";
}

/** The modes from one of them on, each in turn; those that need the first mode's answer come behind it. */
export function turnOrder(modes: readonly EvalMode[], from: number): number[] {
  const order = modes.map((_, turn) => (turn + from) % modes.length);
  const at = order.indexOf(0);
  const early = order.slice(0, at);
  return [
    ...early.filter((mode) => !needsReference(modes[mode]!)),
    0,
    ...early.filter((mode) => needsReference(modes[mode]!)),
    ...order.slice(at + 1),
  ];
}
