import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../properties.ts";
import { Bag, type Stay } from "../../base/bag.ts";

test("whoever comes and goes, a bag has those who are there, in the order in which they came", () => {
  fc.assert(fc.property(fc.array(fc.option(fc.nat(40)), { maxLength: 200 }), (steps) => {
    const bag = new Bag<number>();
    const stays: Stay<number>[] = [];
    const left = new Set<number>();
    for (const [member, leaves] of steps.entries()) {
      stays.push(bag.add(member));
      if (leaves === null) continue;
      const stay = stays[leaves % stays.length]!;
      assert.equal(bag.remove(stay), !left.has(stay.member), "a stay ends once");
      left.add(stay.member);
    }
    const present = stays.map(({ member }) => member).filter((member) => !left.has(member));
    assert.deepEqual(bag.members(), present);
    assert.equal(bag.size, present.length);
  }));
});

test("a member that comes twice is there twice", () => {
  const bag = new Bag<string>();
  const first = bag.add("a");
  bag.add("b");
  bag.add("a");
  bag.remove(first);
  assert.deepEqual(bag.members(), ["b", "a"]);
});
