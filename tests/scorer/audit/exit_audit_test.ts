import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { Random } from "../../../base/random.ts";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import { RunConsensusPolicy } from "../../../scorer/policy/run_consensus.ts";
import { type Drawn, drawn, finalAnswerOf } from "../../drawn_votes.ts";

const [SAME, OTHER] = [finalAnswerOf(1), finalAnswerOf(2)];

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

test("a broken promise is noticed after a few dozen audited exits, and it stays off", () => {
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
  const held = Array.from({ length: 2_000 }, () => audit.holdsBack(4, "1234")).filter((held) => held).length;
  assert.ok(held > 150 && held < 250, `${held}`);
});

test("an exit that would have answered otherwise raises the share, until as many others as it takes have not", () => {
  const audit = auditOf(0.05, 0.01);
  audit.compare(SAME, SAME);
  assert.deepEqual([audit.share, audit.doubt], [0.01, undefined]);
  audit.compare(SAME, OTHER);
  assert.deepEqual([audit.share, audit.doubt], [1, "other_answer"]);
  assert.ok(audit.holdsBack(3, "any"));
  let more = 0;
  for (; audit.doubt !== undefined; more++) audit.compare(SAME, SAME);
  assert.ok(more > 3 && more < 12, `${more}`);
  assert.equal(audit.share, 0.01);
});

test("runs that agree later than usual raise the share, and after many audits that find nothing it falls again", () => {
  const consensus = { audit: 0.01, most_wrong: 0.05, usual_votes: { 3: 200, 4: 80, never: 20 } };
  const audit = new ExitAudit(earlyExitSchema.parse({ scope: "run", consensus }));
  let runs = 0;
  for (; audit.doubt === undefined; runs++) audit.holdsBack(runs % 2 === 0 ? Infinity : 4, `${runs}`);
  assert.ok(runs < 40, `${runs}`);
  assert.deepEqual([audit.share, audit.doubt], [1, "workload"]);
  let audits = 0;
  for (; audit.doubt !== undefined; audits++) audit.compare(SAME, SAME);
  assert.ok(audits > 40 && audits < 80, `${audits}`);
  assert.deepEqual([audit.share, audit.off], [0.01, false]);
});

test("also after a long time in which it was kept, a promise that breaks is noticed soon", () => {
  const random = new Random("long");
  const audit = auditOf(0.05);
  assert.equal(until(audit, 5_000, () => random.next() < 0.01), Infinity);
  const taken = until(audit, 1_000, () => random.next() < 0.3);
  assert.ok(taken < 120, `${taken}`);
});

/** Promises, and a number of equal answers that keeps each on runs as they are tuned on. */
const RULES = [{ risk: 0.05, agree: 3 }, { risk: 0.02, agree: 4 }] as const;

/** After how many votes a run agrees on what; Infinity for never. */
function exitOf(policy: RunConsensusPolicy, { leaves }: Drawn) {
  const votes = [...leaves].sort((a, b) => a.ms - b.ms).map(({ model, value }, place) => ({
    agent: `${place}`,
    model,
    answer: finalAnswerOf(value),
    logprobs: undefined,
  }));
  for (let count = 1; count <= votes.length; count++) {
    const { agent } = policy.decide({ votes: votes.slice(0, count), leaves: 9, open: [], bySize: ["large"] });
    if (agent !== undefined) return { votes: count, answer: votes[Number(agent)]!.answer };
  }
  return { votes: Infinity, answer: undefined };
}

/** A service whose rule was tuned on such runs, with the audit as it is written. */
class Service {
  readonly audit: ExitAudit;
  readonly #random: Random;
  readonly #policy: RunConsensusPolicy;
  exits = 0;
  wrong = 0;

  constructor(seed: string, { risk, agree }: (typeof RULES)[number]) {
    this.#random = new Random(seed);
    const rule = earlyExitSchema.parse({ scope: "run", consensus: { agree } });
    this.#policy = new RunConsensusPolicy(rule);
    const usual: Record<string, number> = {};
    const tuned = 400;
    for (let run = 0; run < tuned; run++) {
      const { votes } = exitOf(this.#policy, drawn(this.#random));
      const name = votes === Infinity ? "never" : `${votes}`;
      usual[name] = (usual[name] ?? 0) + 1;
    }
    const most_wrong = risk * tuned / (tuned - (usual["never"] ?? 0));
    const consensus = { agree, audit: 0.01, most_wrong, usual_votes: usual };
    this.audit = new ExitAudit(earlyExitSchema.parse({ scope: "run", consensus }));
  }

  /** Runs until exits are switched off; Infinity when they are not after so many. */
  until(most: number, kinds: { readonly hard?: number; readonly harder?: number }): number {
    for (let run = 1; run <= most; run++) {
      const one = drawn(this.#random, kinds);
      const { votes, answer } = exitOf(this.#policy, one);
      const isHeldBack = this.audit.holdsBack(votes, `${this.#random.uint32()}`);
      if (answer === undefined) continue;
      this.exits++;
      const whole = finalAnswerOf(one.root);
      if (answer !== whole) this.wrong++;
      if (isHeldBack) this.audit.compare(answer, whole);
      if (this.audit.off) return run;
    }
    return Infinity;
  }

  get auditedShare(): number {
    return this.audit.audited / this.exits;
  }
}

// More of them: CANOPY_AUDITS=200.
const SERVICES = Number(process.env["CANOPY_AUDITS"] ?? 12);

for (const rule of RULES) {
  const promise = `of ${100 * rule.risk} %`;

  test(`harder questions under a promise ${promise} switch exits off within 500 runs in most services; until then 1 % is audited`, () => {
    const taken: number[] = [];
    let [share, before, wrong, exits] = [0, 0, 0, 0];
    for (let seed = 0; seed < SERVICES; seed++) {
      const service = new Service(`${rule.risk}/${seed}`, rule);
      if (service.until(2_000, {}) < Infinity) before++;
      share += service.auditedShare / SERVICES;
      [service.wrong, service.exits] = [0, 0];
      taken.push(service.audit.off ? 0 : service.until(1_000, { harder: 1 }));
      wrong += service.wrong;
      exits += service.exits;
    }
    taken.sort((a, b) => a - b);
    const within = taken.filter((runs) => runs <= 500).length;
    if (SERVICES > 12) {
      process.stdout.write(
        `Promise ${promise}, ${SERVICES} services: median ${
          taken[SERVICES >> 1]
        } runs, off within 500 in ${within}, ` +
          `off before ${before}, audited before ${share}, wrong after ${wrong / exits}\n`,
      );
    }
    assert.ok(within >= 0.8 * SERVICES, `${within} of ${SERVICES}: ${taken.join()}`);
    assert.ok(before <= 0.05 * SERVICES + 4 * Math.sqrt(0.05 * SERVICES), `${before}`);
    assert.ok(share < 0.02, `${share}`);
  });

  test(`a promise ${promise} that is kept over many runs is switched off in at most a twentieth of the services`, () => {
    const all = Math.ceil(SERVICES / 2);
    let [off, share] = [0, 0];
    for (let seed = 0; seed < all; seed++) {
      const service = new Service(`kept/${rule.risk}/${seed}`, rule);
      if (service.until(4_000, {}) < Infinity) off++;
      share += service.auditedShare / all;
    }
    if (SERVICES > 12) {
      process.stdout.write(`Promise ${promise} kept: off in ${off} of ${all}, audited ${share}\n`);
    }
    assert.ok(off <= 0.05 * all + 4 * Math.sqrt(0.05 * all), `${off} of ${all}`);
    assert.ok(share < 0.02, `${share}`);
  });
}
