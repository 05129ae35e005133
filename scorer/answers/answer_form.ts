import type { Formula } from "./maths/formula.ts";
import type { Unit } from "./units.ts";

/** A number: reduced, the denominator positive; percents are hundredths unless the question asks for percent. */
export interface NumberForm {
  readonly kind: "number";
  readonly top: bigint;
  readonly bottom: bigint;
  readonly unit?: Unit | undefined;
}

/** Text between the items of a list, `,` where it is nothing but that; in a `sequence` the order matters. */
export type ListJoin = "," | "∧" | "∨" | "sequence";

/** What a final answer says, in the form in which answers are compared. */
export type AnswerForm =
  | NumberForm
  | { readonly kind: "formula"; readonly formula: Formula; readonly unit?: Unit | undefined }
  /** x = 5, where x is one of several names, or the answer is compared with an equation. */
  | {
    readonly kind: "assigned";
    readonly name: string;
    readonly formula?: Formula | undefined;
    readonly value: AnswerForm;
  }
  | { readonly kind: "list"; readonly items: readonly AnswerForm[]; readonly join: ListJoin }
  /** Compared letter by letter. */
  | { readonly kind: "text"; readonly text: string };
