import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, type PageAddress, readAddress } from "../../../page/state/address.ts";
import { fc } from "../../properties.ts";

test("an address is read as it was written, whatever stands in an id", () => {
  const id = fc.string({ minLength: 1, unit: "grapheme" });
  const address: fc.Arbitrary<PageAddress> = fc.oneof(
    fc.constantFrom("playground", "runs", "engines", "charts", "config").map((view) => ({ view })),
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
