import { readdirSync, readFileSync } from "node:fs";

/** A process and all that it has started, as Linux counts them. */
export class ProcessTree {
  readonly #root: number;

  constructor(root: number) {
    this.#root = root;
  }

  /**
   * CPU time of the threads that live, user and system, in µs: as the scheduler counts it, in nanoseconds. The ticks of
   * `/proc/PID/stat` are drawn a hundred times a second, and what works every 20 ms keeps step with them.
   */
  cpuMicros(): number {
    let nanoseconds = 0;
    for (const pid of this.#members()) {
      for (const thread of entriesOf(`${pid}/task`)) {
        nanoseconds += Number(readProc(`${pid}/task/${thread}/schedstat`)?.split(" ")[0] ?? 0);
      }
    }
    return nanoseconds / 1e3;
  }

  /** Resident memory in MB; a page that several processes share counts in parts (PSS). */
  memoryMb(): number {
    let kilobytes = 0;
    for (const pid of this.#members()) {
      const memory = readProc(`${pid}/smaps_rollup`) ?? "";
      kilobytes += Number(/^Pss:\s+(\d+)/m.exec(memory)?.[1] ?? 0);
    }
    return kilobytes / 1024;
  }

  #members(): number[] {
    const parents = new Map<number, number>();
    for (const name of entriesOf("").filter((entry) => /^\d+$/.test(entry))) {
      // It may have just ended.
      const fields = readProc(`${name}/stat`)?.replace(/^.*\) /s, "").split(" ");
      if (fields !== undefined) parents.set(Number(name), Number(fields[1]));
    }
    const belongs = (pid: number | undefined): boolean =>
      pid !== undefined && pid > 1 && (pid === this.#root || belongs(parents.get(pid)));
    return [...parents.keys()].filter(belongs);
  }
}

function entriesOf(path: string): string[] {
  try {
    return readdirSync(`/proc/${path}`);
  } catch {
    return [];
  }
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, "utf8");
  } catch {
    return undefined;
  }
}
