/** A member's time in a `Bag`. */
export interface Stay<Member> {
  readonly member: Member;
  /** Stays are numbered as they begin. */
  readonly order: number;
  /** Its index among all that last; -1 once it is over. */
  at: number;
}

/**
 * Members that come and go by the thousand. Where a `Set` or `Map` outgrows its table, JavaScriptCore's old table refers
 * to the new one, and once it is old itself, all that came behind it survives every young collection: a relayed request
 * cost a third more by that (`bench/micro/bag.ts`). Here nothing refers from what was to what comes.
 */
export class Bag<Member> {
  readonly #stays: Stay<Member>[] = [];
  #begun = 0;

  get size(): number {
    return this.#stays.length;
  }

  /** Takes a member in, as often as it is called; a stay ends by `remove`. */
  add(member: Member): Stay<Member> {
    const stay = { member, order: this.#begun++, at: this.#stays.length };
    this.#stays.push(stay);
    return stay;
  }

  /** Ends a stay; false, and nothing happens, when it is over. */
  remove(stay: Stay<Member>): boolean {
    const { at } = stay;
    if (at < 0) return false;
    const last = this.#stays.pop()!;
    if (last !== stay) {
      this.#stays[at] = last;
      last.at = at;
    }
    stay.at = -1;
    return true;
  }

  /** All members, or those that are wanted, in the order in which they came. */
  members(isWanted: (member: Member) => boolean = () => true): Member[] {
    const wanted = this.#stays.filter(({ member }) => isWanted(member));
    return wanted.sort((a, b) => a.order - b.order).map(({ member }) => member);
  }
}
