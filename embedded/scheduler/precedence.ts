/** One model's part in a `Precedence`. */
export interface PrecedenceMember {
  /** A sequence of such a priority has come. */
  add(priority: number): void;
  /** One has gone. */
  remove(priority: number): void;
}

/**
 * Urgent sequences, of a priority below 0, of models that share a machine's cores: while there is one, those of the
 * other models that come behind it pause, for whatever they compute it waits for.
 */
export class Precedence {
  readonly #members: Member[] = [];

  /** `onLimit` is called with the most urgent priority of all other models when that changes; undefined: none is urgent. */
  join(onLimit: (limit: number | undefined) => void): PrecedenceMember {
    const member = new Member(onLimit);
    this.#members.push(member);
    const counted = (priority: number, by: number) => {
      if (priority < 0 && member.count(priority, by)) this.#tell();
    };
    return { add: (priority) => counted(priority, 1), remove: (priority) => counted(priority, -1) };
  }

  #tell(): void {
    for (const member of this.#members) {
      const others = this.#members.flatMap((other) => other === member ? [] : other.least ?? []);
      member.tell(others.length === 0 ? undefined : Math.min(...others));
    }
  }
}

class Member {
  readonly #onLimit: (limit: number | undefined) => void;
  readonly #counts = new Map<number, number>();
  #told: number | undefined;

  constructor(onLimit: (limit: number | undefined) => void) {
    this.#onLimit = onLimit;
  }

  /** The most urgent priority of its sequences. */
  get least(): number | undefined {
    return this.#counts.size === 0 ? undefined : Math.min(...this.#counts.keys());
  }

  /** True when its most urgent priority is another one now. */
  count(priority: number, by: number): boolean {
    const { least } = this;
    const count = (this.#counts.get(priority) ?? 0) + by;
    if (count > 0) this.#counts.set(priority, count);
    else this.#counts.delete(priority);
    return this.least !== least;
  }

  tell(limit: number | undefined): void {
    if (limit === this.#told) return;
    this.#told = limit;
    this.#onLimit(limit);
  }
}
