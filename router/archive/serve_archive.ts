import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { ArchiveOptions, FromArchive, ToArchive } from "./archive_thread.ts";
import type { ArchivedRun } from "./archived_run.ts";
import { RunDatabase } from "./run_database.ts";

/** Time after which runs are looked at that have become too old though nothing is added. */
const LOOK_MS = 10 * 60_000;

/** Takes messages for an archive and answers them; opens the file at once. What it returns never throws. */
export function serveArchive(
  options: ArchiveOptions,
  clock: Clock,
  post: (message: FromArchive, transfer?: ArrayBuffer[]) => void,
): (message: ToArchive) => void {
  try {
    const server = new ArchiveServer(new RunDatabase(options.path, options.bounds), clock, post);
    post({ kind: "open" });
    return (message) => server.take(message);
  } catch (error) {
    post({ kind: "unusable", reason: messageOf(error) });
    return () => {};
  }
}

class ArchiveServer {
  readonly #database: RunDatabase;
  readonly #clock: Clock;
  readonly #post: (message: FromArchive, transfer?: ArrayBuffer[]) => void;
  readonly #life = new AbortController();
  readonly #utf8 = new TextEncoder();
  /** Pieces of the next run's record. */
  #begun = "";
  #prunes = false;
  /** True after a complaint, until old runs could be removed again. */
  #complained = false;

  constructor(
    database: RunDatabase,
    clock: Clock,
    post: (message: FromArchive, transfer?: ArrayBuffer[]) => void,
  ) {
    this.#database = database;
    this.#clock = clock;
    this.#post = post;
    void this.#look();
  }

  take(message: ToArchive): void {
    if (message.kind === "part") return void (this.#begun += message.part);
    if (message.kind === "close") return this.#close();
    try {
      this.#answer(message);
    } catch (error) {
      return this.#post({ kind: "failed", number: message.number, reason: messageOf(error) });
    }
    if (message.kind === "add") this.#prune();
  }

  #answer(message: Exclude<ToArchive, { kind: "part" | "close" }>): void {
    const { number } = message;
    switch (message.kind) {
      case "add":
        this.#add(message.run);
        return this.#post({ kind: "added", number });
      case "list": {
        const { runs, more } = this.#database.list(message.page);
        const listed = runs.filter(({ id }) => !message.but.includes(id));
        const bytes = this.#utf8.encode(listed.map(({ summary }) => summary).join(","));
        const page = { count: listed.length, last: runs.at(-1)?.id, bytes, more };
        return this.#post({ kind: "page", number, page }, [bytes.buffer]);
      }
      case "get": {
        const run = this.#database.get(message.id);
        if (run === undefined) return this.#post({ kind: "run", number, run });
        const { owner, state } = run;
        // A copy with memory of its own, which can be handed over.
        const bytes = new Uint8Array(run.record);
        return this.#post({ kind: "run", number, run: { owner, state, bytes } }, [bytes.buffer]);
      }
      case "events":
        return this.#post({ kind: "events", number, events: this.#eventsOf(message.id) });
    }
  }

  #eventsOf(id: string): string[] {
    const run = this.#database.get(id);
    if (run === undefined) return [];
    const { events }: { events: readonly unknown[] } = JSON.parse(new TextDecoder().decode(run.record));
    return events.map((event) => JSON.stringify(event));
  }

  #add(run: ArchivedRun): void {
    const record = this.#begun + run.record;
    this.#begun = "";
    this.#database.add({ ...run, record });
  }

  /**
   * Removes what is too much, a little at a time: messages are taken in between. Complains once for many times that it
   * fails one after the other.
   */
  #prune(): void {
    if (this.#prunes) return;
    try {
      const more = this.#database.prune(this.#clock.unixEpochMs + this.#clock.now());
      this.#complained = false;
      if (!more) return;
    } catch (error) {
      if (!this.#complained) this.#post({ kind: "unpruned", reason: messageOf(error) });
      this.#complained = true;
      return;
    }
    this.#prunes = true;
    this.#clock.sleep(0, this.#life.signal).then(() => {
      this.#prunes = false;
      this.#prune();
    }, () => {});
  }

  async #look(): Promise<void> {
    while (!this.#life.signal.aborted) {
      this.#prune();
      await this.#clock.sleep(LOOK_MS, this.#life.signal).catch(() => {});
    }
  }

  #close(): void {
    this.#life.abort(new Error("The archive was closed"));
    try {
      this.#database.close();
    } catch (error) {
      this.#post({ kind: "unpruned", reason: messageOf(error) });
    }
    this.#post({ kind: "closed" });
  }
}
