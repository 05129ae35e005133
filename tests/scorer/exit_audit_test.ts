import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import { earlyExitSchema } from "../../cfgs/schema/early_exit.ts";
import { ExitAudit } from "../../scorer/exit_audit.ts";
import { answerExtractor } from "../../scorer/answers/extract.ts";

const extract = answerExtractor(earlyExitSchema.parse({}).answer);
const answerOf = (value: number) => extract(`The answer is ${value}.`, "")!;
const [SAME, OTHER] = [answerOf(1), answerOf(2)];

function auditOf(most_wrong: number, audit = 1): ExitAudit {
  return new ExitAudit(earlyExitSchema.parse({ scope: "run", consensus: { audit, most_wrong } }));
}

/** Audited exits until it is off; Infinity when it is not after so many. */
function until(audit: ExitAudit, most: number, differs: () => boolean): number {
  for (let exits = 1; exits <= most; exits++) {
    audit.compare(SAME, differs() ? OTHER : SAME);
    if (audit.off) return exits;
  }
  return Infinity;
}

test("a promise that is kept is switched off by chance in at most a twentieth of all services, however long they last", () => {
  const random = new Random("kept");
  const services = 400;
  const off = Array.from({ length: services }, () => until(auditOf(0.05), 1_000, () => random.next() < 0.05))
    .filter((exits) => exits < Infinity).length;
  assert.ok(off <= services / 20 + 4 * Math.sqrt(services * 0.05 * 0.95), `${off} of ${services}`);
});

test("harder questions are noticed after a few dozen audited exits, and it stays off", () => {
  const random = new Random("shifted");
  const taken = Array.from(
    { length: 200 },
    () => until(auditOf(0.05), 2_000, () => random.next() < 0.25),
  )
    .sort((a, b) => a - b);
  assert.ok(taken[100]! <= 30, `median ${taken[100]}`);
  assert.ok(taken[190]! <= 100, `95 % ${taken[190]}`);
  const audit = auditOf(0.02);
  until(audit, 100, () => true);
  for (let exits = 0; exits < 10_000; exits++) audit.compare(SAME, SAME);
  assert.ok(audit.off);
});

test("it counts what it has seen", () => {
  const audit = auditOf(0.1);
  audit.compare(SAME, SAME);
  assert.equal(audit.compare(SAME, undefined), "other");
  assert.deepEqual([audit.audited, audit.different, audit.off], [2, 1, false]);
});

test("of exits of one seed that a client sends always, as large a share is audited as of others", () => {
  const audit = auditOf(0.05, 0.1);
  const held = Array.from({ length: 2_000 }, () => audit.holdsBack("1234")).filter((held) => held).length;
  assert.ok(held > 150 && held < 250, `${held}`);
});
