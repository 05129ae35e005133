/** A constraint that cannot be checked, and why. */
export class NotCheckable extends Error {
  override readonly name = "NotCheckable";
}

/** Arguments of a constraint; each getter throws `NotCheckable` for one that is not there. */
export class Arguments {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  text(name: string): string {
    const value = this.#values[name];
    if (typeof value === "string") return value;
    throw this.#missing(name, "a text");
  }

  /** From 0. */
  number(name: string): number {
    const value = this.#values[name];
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number === "number" && number >= 0) return number;
    throw this.#missing(name, "a number from 0");
  }

  /** A whole number from 1. */
  position(name: string): number {
    const number = this.number(name);
    if (Number.isInteger(number) && number >= 1) return number;
    throw this.#missing(name, "a whole number from 1");
  }

  #missing(name: string, kind: string): NotCheckable {
    return new NotCheckable(
      `its argument ${name} must be ${kind}: current value is ${
        JSON.stringify(this.#values[name]) ?? "none"
      }`,
    );
  }
}

/** Splits a text into English sentences. */
export type SplitSentences = (text: string) => string[];

/** True where a text meets a constraint. Throws `NotCheckable`. */
export type Checker = (text: string, given: Arguments, sentences: SplitSentences) => boolean;

/** Checkers by the names of their constraints. */
export type Checkers = Readonly<Record<string, Checker>>;
