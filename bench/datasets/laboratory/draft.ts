import type { Random } from "../../../base/random.ts";
import type { LaboratoryLevel } from "./question.ts";

/** What a number may be at most on the way of a solution. */
export const MAX_VALUE = 999;

/** One way to say something; `text` and `label` may hold placeholders that the story knows. */
export type Wording = string;

/** A question that is being written: its sentences, the steps of its solution, and what it is made of. */
export class Draft {
  readonly random: Random;
  readonly level: LaboratoryLevel;
  readonly #sentences: string[] = [];
  readonly #steps: string[] = [];
  readonly #template: string[] = [];
  readonly #numbers: number[] = [];
  /** False as soon as a step left the whole numbers from 1 to `MAX_VALUE`. */
  valid = true;

  constructor(random: Random, level: LaboratoryLevel) {
    this.random = random;
    this.level = level;
  }

  /** One of several wordings or operations; the choice is part of the question's template. */
  choose<Item>(items: readonly Item[]): Item {
    const index = this.random.int(items.length);
    this.#template.push(String(index));
    return items[index]!;
  }

  /** Makes a name part of the question's template. */
  mark(name: string): void {
    this.#template.push(name);
  }

  /** A number that the question gives, from `low` to `high`. */
  number(low: number, high: number): number {
    return this.given(low + this.random.int(Math.max(1, high - low + 1)));
  }

  /** Makes a number one that the question gives. */
  given(value: number): number {
    this.#numbers.push(value);
    return value;
  }

  say(sentence: string): void {
    this.#sentences.push(sentence);
  }

  explain(step: string): void {
    this.#steps.push(step);
  }

  /** The result of one operation, written as `12+7=19`. */
  calculate(left: number, sign: "+" | "-" | "*" | "/", right: number): Calculation {
    const value = sign === "+"
      ? left + right
      : sign === "-"
      ? left - right
      : sign === "*"
      ? left * right
      : left / right;
    if (!Number.isInteger(value) || value < 1 || value > MAX_VALUE) this.valid = false;
    return { value, text: `${left}${sign}${right}=${value}` };
  }

  get template(): string {
    return this.#template.join(".");
  }

  get numbers(): string {
    return this.#numbers.join(",");
  }

  get question(): string {
    return this.#sentences.join(" ").replaceAll(/ ?\n ?/g, "\n");
  }

  /** The steps on one line. */
  get steps(): string {
    return this.#steps.join(" ");
  }
}

/** An operation carried out. */
export interface Calculation {
  readonly value: number;
  readonly text: string;
}

/** Writes values into the `{name}` places of a text. */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name]));
}

/** `count` different elements of a list, in random order. */
export function several<Item>(random: Random, list: readonly Item[], count: number): Item[] {
  const rest = [...list];
  return Array.from({ length: count }, () => rest.splice(random.int(rest.length), 1)[0]!);
}
