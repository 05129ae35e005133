import assert from "node:assert/strict";
import { test } from "node:test";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import type { AuditEvent, ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import { SharedAudits } from "../../../scorer/audit/shared_audits.ts";
import { finalAnswerOf } from "../../drawn_votes.ts";

const settings = earlyExitSchema.parse({ scope: "run", consensus: { audit: 1, most_wrong: 0.05 } });
const [SAME, OTHER] = [finalAnswerOf(1), finalAnswerOf(2)];

/** Two threads that tell each other at once. */
function twoThreads(): readonly [SharedAudits, SharedAudits] {
  const threads: SharedAudits[] = [];
  const telling = (other: number) => (audit: string, event: AuditEvent) => threads[other]!.take(audit, event);
  const [one, two] = [new SharedAudits(telling(1)), new SharedAudits(telling(0))];
  threads.push(one, two);
  return [one, two];
}

function differ(audit: ExitAudit, times: number): void {
  for (let exits = 0; exits < times; exits++) audit.compare(SAME, OTHER);
}

test("a thread that runs a graph for the first time knows what the others have seen of it before", () => {
  const [one, two] = twoThreads();
  const first = one.make(settings, "moa");
  differ(first, 3);
  const second = two.make(settings, "moa");
  assert.deepEqual([second.audited, second.different, second.doubt], [3, 3, "other_answer"]);
  differ(second, 1);
  assert.deepEqual([first.audited, first.different], [4, 4]);
  assert.equal(two.make(settings, "other").audited, 0);
});

test("with another configuration audits begin anew in all threads, whoever runs first", () => {
  const [one, two] = twoThreads();
  differ(one.make(settings, "moa"), 3);
  two.make(settings, "moa");
  one.forget();
  two.forget();
  const first = one.make(settings, "moa");
  differ(first, 2);
  const second = two.make(settings, "moa");
  assert.deepEqual([first.audited, second.audited], [2, 2]);
});
