import { fnv1a } from "../../base/random.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { type AuditEvent, ExitAudit } from "./exit_audit.ts";

/** Requests may bring graphs of their own: of so many others the audits are remembered. */
const MOST = 1_000;
/** What others have seen of a graph before it is run here; more of it is forgotten. */
const MOST_MISSED = 10_000;

/** The audits of one thread of several, each of which hears what the audit of the same graph has seen in the others. */
export class SharedAudits {
  readonly #audits = new Map<string, ExitAudit>();
  /** What came for audits that are still to be made. */
  readonly #missed = new Map<string, AuditEvent[]>();
  readonly #tell: (audit: string, event: AuditEvent) => void;

  /** `tell`: tells all other threads. */
  constructor(tell: (audit: string, event: AuditEvent) => void) {
    this.#tell = tell;
  }

  /** A new audit, which knows what the others have seen so far. */
  make(settings: EarlyExitConfig, graph: string): ExitAudit {
    const name = `${graph}/${fnv1a(JSON.stringify(settings))}`;
    const audit = new ExitAudit(settings, (event) => this.#tell(name, event));
    const [oldest] = this.#audits.keys();
    if (this.#audits.size >= MOST && oldest !== undefined) this.#audits.delete(oldest);
    this.#audits.set(name, audit);
    for (const event of this.#missed.get(name) ?? []) audit.take(event);
    this.#missed.delete(name);
    return audit;
  }

  /** What another thread has seen. */
  take(audit: string, event: AuditEvent): void {
    const known = this.#audits.get(audit);
    if (known !== undefined) return known.take(event);
    const missed = this.#missed.get(audit) ?? [];
    if (missed.length < MOST_MISSED) missed.push(event);
    if (this.#missed.size < MOST) this.#missed.set(audit, missed);
  }

  /** Another configuration: audits begin anew. */
  forget(): void {
    this.#audits.clear();
    this.#missed.clear();
  }
}
