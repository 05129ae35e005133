import type { JsonObject } from "../../../base/json.ts";
import { logger } from "../../../base/log.ts";
import type { FinalAnswer } from "../../../scorer/answers/final_answer.ts";
import type { AuditDoubt, ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import type { AuditRecord } from "../record/run_record.ts";
import type { Trace } from "../record/trace.ts";

const log = logger("moa");

/** Reasons of audits as sentences of traces say them. */
const DOUBTS: Readonly<Record<AuditDoubt, string>> = {
  other_answer: "an audited exit has answered otherwise",
  workload: "runs come to agree otherwise than they did",
};

/** Options of a `RunAudit`. */
export interface RunAuditOptions {
  /** The watch over the exits of all runs. */
  readonly audit: ExitAudit;
  /** Name of the graph. */
  readonly graph: string;
  /** Share of the exits that may answer otherwise. */
  readonly mostWrong: number;
  /** Seed of the run's draws. */
  readonly drawSeed: string;
  readonly trace: Trace;
}

/** What one run has to do with the audit of exits: what its votes tell it, and whether its own exit is held back. */
export class RunAudit {
  readonly #options: RunAuditOptions;
  #isHeldBack: boolean | undefined;
  /** Share and doubt by which its exit was held back. */
  #by: JsonObject = {};
  /** The answer that the run would have ended with, until the whole run has answered. */
  #exit: FinalAnswer | undefined;
  #found: AuditRecord["found"];

  constructor(options: RunAuditOptions) {
    this.#options = options;
  }

  /** True when the run must not end early. */
  get isHeldBack(): boolean {
    return this.#isHeldBack === true;
  }

  /** Why its exit is held back, for the trace. */
  get reason(): JsonObject {
    return { reason: "audit: the whole run is awaited", ...this.#by };
  }

  get record(): AuditRecord {
    const { off, share, doubt } = this.#options.audit;
    return { found: this.#found, off, share, doubt };
  }

  /** Its agents agree after so many votes, or its root has answered without that (Infinity); only the first call counts. */
  agreed(votes: number): void {
    if (this.#isHeldBack !== undefined) return;
    const { audit, drawSeed, graph, trace } = this.#options;
    const { share, doubt } = audit;
    this.#by = { share, ...(doubt === undefined ? {} : { doubt: DOUBTS[doubt] }) };
    this.#isHeldBack = audit.holdsBack(votes, drawSeed);
    if (audit.doubt !== "workload" || doubt === "workload") return;
    trace.add("audit_raised", { data: { share: audit.share, doubt: DOUBTS.workload } });
    log.info(
      "Runs of {graph} come to agree otherwise than they did: the whole run is awaited of every exit, until audits have " +
        "shown that the promise still holds",
      { graph },
    );
  }

  /** The exit that is held back would have answered so. */
  await(exit: FinalAnswer | undefined): void {
    this.#exit = exit;
  }

  /** The whole run has answered; `answer`: the final answer in that, undefined for none. */
  end(answer: FinalAnswer | undefined): void {
    const { audit, trace, graph, mostWrong } = this.#options;
    const exit = this.#exit;
    if (exit === undefined) return this.agreed(Infinity);
    this.#exit = undefined;
    const { off: wasOff, doubt } = audit;
    this.#found = audit.compare(exit, answer);
    trace.add("consensus_audited", {
      data: {
        found: this.#found,
        exit: exit.text,
        whole: answer?.text ?? "",
        off: audit.off,
        share: audit.share,
      },
    });
    if (doubt === "workload" && audit.doubt === undefined && !audit.off) {
      log.info(
        "Exits of {graph} answer as whole runs do, with the questions of now: {share} of them are audited again",
        {
          graph,
          share: audit.share,
        },
      );
    }
    if (wasOff || !audit.off) return;
    log.warning(
      "Early exit of {graph} is switched off: {different} of {audited} audited exits would have answered other than the " +
        "whole run, more than most_wrong ({most}) allows; tune again on runs of now, then reload",
      { graph, different: audit.different, audited: audit.audited, most: mostWrong },
    );
  }
}
