import { readdirSync, readFileSync } from "node:fs";

/** Clock ticks of a second in `/proc/PID/stat`; 100 on every Linux of today. */
const TICKS_PER_SECOND = 100;

/** A process and all that it has started, as Linux counts them. */
export class ProcessTree {
  readonly #root: number;

  constructor(root: number) {
    this.#root = root;
  }

  /** CPU time of those that live, user and system, in µs. */
  cpuMicros(): number {
    let ticks = 0;
    for (const one of this.#members()) ticks += one.ticks;
    return ticks / TICKS_PER_SECOND * 1e6;
  }

  /** Resident memory in MB; a page that several processes share counts in parts (PSS). */
  memoryMb(): number {
    let kilobytes = 0;
    for (const { pid } of this.#members()) {
      const memory = readProc(`${pid}/smaps_rollup`) ?? "";
      kilobytes += Number(/^Rss:\s+(\d+)/m.exec(memory)?.[1] ?? 0);
    }
    return kilobytes / 1024;
  }

  #members(): { readonly pid: number; readonly ticks: number }[] {
    const all = new Map<number, { readonly parent: number; readonly ticks: number }>();
    for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      // It may have just ended.
      const fields = readProc(`${name}/stat`)?.replace(/^.*\) /s, "").split(" ");
      if (fields === undefined) continue;
      all.set(Number(name), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
    }
    const belongs = (pid: number | undefined): boolean =>
      pid !== undefined && pid > 1 && (pid === this.#root || belongs(all.get(pid)?.parent));
    return [...all].filter(([pid]) => belongs(pid)).map(([pid, { ticks }]) => ({ pid, ticks }));
  }
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, "utf8");
  } catch {
    return undefined;
  }
}
