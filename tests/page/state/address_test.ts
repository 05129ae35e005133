import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, type PageAddress, readAddress } from "../../../page/state/address.ts";
import { fc } from "../../properties.ts";

test("an address is read as it was written, whatever stands in an id", () => {
  const id = fc.string({ minLength: 1, unit: "grapheme" });
  const address: fc.Arbitrary<PageAddress> = fc.oneof(
    fc.constantFrom("playground", "engines", "charts", "reports", "config").map((view) => ({ view })),
    fc.record({ filter: fc.constantFrom("failed", "exited"), model: id, search: id }, { requiredKeys: [] })
      .map((chosen) => ({ view: "runs" as const, ...chosen })),
    id.map((one) => ({ view: "run" as const, id: one })),
    fc.tuple(id, id).map((ids) => ({ view: "compare" as const, ids })),
  );
  fc.assert(fc.property(address, (one) => assert.deepEqual(readAddress(hashOf(one)), one)));
});

test("an address that is none leads to the playground", () => {
  for (const hash of ["", "#", "#/", "#/nothing", "#/compare/one", "#/%E0%A4%A"]) {
    assert.deepEqual(readAddress(hash), { view: "playground" }, hash);
  }
});

test("a list of runs keeps in its address what was chosen, and ignores what is no choice", () => {
  assert.equal(hashOf({ view: "runs", filter: "all", model: "", search: "" }), "#/runs");
  const chosen = { view: "runs", filter: "failed", model: "org/moa 9?", search: "a&b" } as const;
  assert.equal(hashOf(chosen), "#/runs?filter=failed&model=org%2Fmoa+9%3F&search=a%26b");
  assert.deepEqual(readAddress("#/runs?filter=broken&other=1&search="), { view: "runs" });
  assert.deepEqual(readAddress("#/runs?filter=all"), { view: "runs" });
  assert.deepEqual(readAddress("#/engines?filter=failed"), { view: "engines" });
});
