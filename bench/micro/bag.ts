/**
 * CPU time of a member's stay in a `Bag` beside one in a `Set`, in one process and in turns: 128 members of 8 kB at a
 * time, the oldest leaves when a new one comes. Most of a `Set`'s is the collector's.
 *
 *     bun bench/micro/bag.ts [--members 20000] [--rounds 5]
 */
import process from "node:process";
import { numberAfter } from "./flags.ts";
import { cpuMicros, inTurns } from "./measure.ts";
import { Bag, type Stay } from "../../base/bag.ts";

const AT_A_TIME = 128;
const members = numberAfter("--members", 20_000);
const rounds = numberAfter("--rounds", 5);

/** What a request keeps while it lasts, roughly. */
const baggage = () => Array.from({ length: 200 }, (_, at) => ({ at }));

function inSet(): void {
  const set = new Set<object>();
  const present: object[] = [];
  for (let n = 0; n < members; n++) {
    const member = baggage();
    set.add(member);
    if (n >= AT_A_TIME) set.delete(present[n % AT_A_TIME]!);
    present[n % AT_A_TIME] = member;
  }
}

function inBag(): void {
  const bag = new Bag<object>();
  const present: Stay<object>[] = [];
  for (let n = 0; n < members; n++) {
    const stay = bag.add(baggage());
    if (n >= AT_A_TIME) bag.remove(present[n % AT_A_TIME]!);
    present[n % AT_A_TIME] = stay;
  }
}

const perMember = (work: () => void) => async () => await cpuMicros(() => Promise.resolve(work())) / members;
const { set, bag } = await inTurns(rounds, { set: perMember(inSet), bag: perMember(inBag) });
process.stdout.write(
  `a member in a Set ${set.toFixed(2)} µs, in a Bag ${bag.toFixed(2)} µs: ${(bag / set).toFixed(2)}×\n`,
);
