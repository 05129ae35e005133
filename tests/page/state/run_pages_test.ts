import assert from "node:assert/strict";
import { test } from "node:test";
import {
  pathOfNewest,
  pathOfOlder,
  readRunPage,
  type RunPages,
  withNewest,
  withOlder,
} from "../../../page/state/run_pages.ts";
import { fc } from "../../properties.ts";

const page = (ids: string, hasMore = false): RunPages =>
  readRunPage({
    data: [...ids].map((id) => ({ id, state: id === id.toUpperCase() ? "running" : "done" })),
    has_more: hasMore,
  });
const idsOf = ({ runs }: RunPages) => runs.map(({ id }) => id).join("");

test("the server is asked for a state and a graph, for all that goes on, and for what is behind the last run", () => {
  const query = { state: "failed", graph: "a b&c" };
  assert.equal(pathOfNewest(query, undefined), "/v1/runs?limit=100&state=failed&graph=a+b%26c");
  assert.equal(pathOfNewest({ state: "", graph: "" }, page("ABc")), "/v1/runs?limit=102");
  assert.equal(pathOfOlder({ state: "", graph: "moa" }, page("bc")), "/v1/runs?limit=100&after=c&graph=moa");
});

test("older runs stay when the newest are loaded again, and begin anew where others lie between", () => {
  const two = withOlder(page("Aed", true), page("cb", true));
  assert.equal(idsOf(two), "Aedcb");
  assert.equal(idsOf(withNewest(two, page("gfe", true))), "gfedcb", "A has ended, and is not kept");
  assert.equal(withNewest(two, page("gfe", true)).hasMore, true);
  assert.deepEqual(withNewest(two, page("ihg", true)), page("ihg", true));
  assert.deepEqual(withNewest(two, page("e")), page("e"), "the others are gone");
});

test("whatever starts and ends between two looks, what is shown is the beginning of the server's list", () => {
  const step = fc.oneof(
    fc.constant("start" as const),
    fc.constant("older" as const),
    fc.constant("look" as const),
    fc.nat({ max: 20 }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
    let live: string[] = [];
    let ended: string[] = [];
    let shown: RunPages | undefined;
    const list = () => [
      ...live.map((id) => ({ id, state: "running" })),
      ...ended.map((id) => ({ id, state: "done" })),
    ];
    const slice = (from: number, count: number) =>
      readRunPage({ data: list().slice(from, from + count), has_more: from + count < list().length });
    for (const [at, one] of steps.entries()) {
      if (one === "start") live = [...live, `r${at}`];
      else if (typeof one === "number") {
        ended = [...live.slice(one, one + 1), ...ended];
        live = live.filter((_, index) => index !== one);
      } else if (one === "older") {
        const last = shown?.runs.at(-1)?.id;
        if (shown?.hasMore === true) {
          shown = withOlder(shown, slice(list().findIndex(({ id }) => id === last) + 1, 2));
        }
      } else {
        const known = shown?.runs.filter(({ state }) => state === "running").length ?? 0;
        const newest = slice(0, 2 + known);
        shown = shown === undefined ? newest : withNewest(shown, newest);
        const all = list();
        assert.deepEqual(
          shown.runs.map(({ id, state }) => ({ id, state })),
          all.slice(0, shown.runs.length),
        );
        assert.equal(shown.hasMore, shown.runs.length < all.length);
      }
    }
  }));
});
