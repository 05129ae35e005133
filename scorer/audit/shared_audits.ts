import { fnv1a } from "../../base/random.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { type AuditEvent, ExitAudit } from "./exit_audit.ts";

/** Requests may bring graphs of their own: of so many others the audits are remembered. */
const MOST = 1_000;

/** The audits of one thread of several, each of which hears what the audit of the same graph has seen in the others. */
export class SharedAudits {
  readonly #audits = new Map<string, ExitAudit>();
  readonly #tell: (audit: string, event: AuditEvent) => void;

  /** `tell`: tells all other threads. */
  constructor(tell: (audit: string, event: AuditEvent) => void) {
    this.#tell = tell;
  }

  /** A new audit, which takes the place of the one of the same graph and settings, as after a reload. */
  make(settings: EarlyExitConfig, graph: string): ExitAudit {
    const name = `${graph}/${fnv1a(JSON.stringify(settings))}`;
    const audit = new ExitAudit(settings, (event) => this.#tell(name, event));
    const [oldest] = this.#audits.keys();
    if (this.#audits.size >= MOST && oldest !== undefined) this.#audits.delete(oldest);
    this.#audits.set(name, audit);
    return audit;
  }

  /** What another thread has seen. One that runs nothing of that graph has no use for it. */
  take(audit: string, event: AuditEvent): void {
    this.#audits.get(audit)?.take(event);
  }
}
