import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import type { Thread } from "../../ml/onnx/thread.ts";
import {
  type ArchivedPage,
  type ArchivedRecord,
  type ArchiveOptions,
  type FromArchive,
  type StartArchive,
  startArchiveThread,
  type ToArchive,
} from "./archive_thread.ts";
import type { ArchivedRun, ArchivePage } from "./archived_run.ts";

/** Options of `RunArchive.open`. */
export interface RunArchiveOptions extends ArchiveOptions {
  readonly clock: Clock;
  /** By default a thread. */
  readonly start?: StartArchive | undefined;
}

/** Characters of a record that are handed to the thread in one turn of the event loop. */
const PART_LENGTH = 256 * 1024;
/** Most characters that wait for the disk: beyond them runs are not kept. */
const MAX_WAITING = 64 * 1024 * 1024;
/** Most ids of runs that could not be written that are remembered. */
const MAX_MISSING = 1000;
/** Time for what is still to be written when all ends. */
const CLOSE_MS = 10_000;

/** An answer of the thread to one message. */
type Answer = Extract<FromArchive, { readonly number: number }>;

interface Asked {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: CanopyError) => void;
}

/** The records of ended runs on disk, which a thread writes and reads. */
export class RunArchive {
  readonly #clock: Clock;
  readonly #path: string;
  readonly #log = logger("archive");
  readonly #opened = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #thread: Thread<ToArchive>;
  readonly #asked = new Map<number, Asked>();
  #number = 0;
  /** Resolves when all runs so far were handed to the thread; they go one after the other. */
  #handedOver: Promise<void> = Promise.resolve();
  /** Characters that the thread has not written yet. */
  #waiting = 0;
  /** True after a complaint, until a run could be written again. */
  #complained = false;
  /** Ids of runs that could not be written, the last ones. */
  readonly #missing = new Set<string>();
  #isOpen = false;
  #unusable: string | undefined;

  private constructor({ clock, path, bounds, start = startArchiveThread }: RunArchiveOptions) {
    this.#clock = clock;
    this.#path = path;
    this.#thread = start({ path, bounds }, {
      message: (message) => this.#take(message),
      crash: (reason) => this.#fail(reason),
    });
  }

  /** Opens the file, and makes it if it is not there. Throws `CanopyError` (500) where it cannot be used. */
  static async open(options: RunArchiveOptions): Promise<RunArchive> {
    const archive = new RunArchive(options);
    archive.#thread.keepAlive(true);
    try {
      await archive.#opened.promise;
      archive.#isOpen = true;
      return archive;
    } catch (error) {
      archive.#thread.terminate();
      throw error;
    } finally {
      archive.#thread.keepAlive(false);
    }
  }

  /** False once the file cannot be used any more. */
  get usable(): boolean {
    return this.#unusable === undefined;
  }

  /**
   * Keeps a run; lists that are asked for from now on have it. Resolves when it is on disk, and never rejects: false, and
   * the log says why, where it could not be written.
   */
  async add(id: string, make: () => Promise<ArchivedRun>): Promise<boolean> {
    const written = Promise.withResolvers<boolean>();
    const fail = (error: unknown) => {
      this.#miss(id, messageOf(error));
      written.resolve(false);
    };
    this.#handedOver = this.#handedOver.then(async () => {
      await this.#handOver(make).then(([done]) => void done?.then(() => written.resolve(true), fail), fail);
      // One run a turn: many that end at once do not hold up the loop.
      await this.#clock.sleep(0);
    });
    return await written.promise;
  }

  /** True for one of the last runs that could not be written. */
  lacks(id: string): boolean {
    return this.#missing.has(id);
  }

  /** A part of the list of runs, without those of `but`. Throws `CanopyError` (500) where it cannot be read. */
  async list(page: ArchivePage, but: readonly string[] = []): Promise<ArchivedPage> {
    await this.#handedOver;
    const answer = await this.#ask((number) => ({ kind: "list", number, page, but }));
    if (answer.kind !== "page") throw this.#unreadable(`its thread said ${answer.kind}`);
    return answer.page;
  }

  /** A run; undefined when it is not kept. Throws as `list` does. */
  async get(id: string): Promise<ArchivedRecord | undefined> {
    await this.#handedOver;
    const answer = await this.#ask((number) => ({ kind: "get", number, id }));
    if (answer.kind !== "run") throw this.#unreadable(`its thread said ${answer.kind}`);
    return answer.run;
  }

  /** The events of a run, each as JSON. Throws as `list` does. */
  async events(id: string): Promise<readonly string[]> {
    await this.#handedOver;
    const answer = await this.#ask((number) => ({ kind: "events", number, id }));
    if (answer.kind !== "events") throw this.#unreadable(`its thread said ${answer.kind}`);
    return answer.events;
  }

  /** Writes what was given, for some seconds at most, and closes the file. */
  async close(): Promise<void> {
    const late = new AbortController();
    const written = this.#handedOver.then(async () => {
      if (!this.usable) return;
      this.#thread.keepAlive(true);
      this.#thread.post({ kind: "close" });
      await this.#ended.promise;
    });
    await Promise.race([written, this.#clock.sleep(CLOSE_MS, late.signal).catch(() => {})]);
    late.abort();
    this.#unusable ??= "it was closed";
    this.#thread.terminate();
  }

  /**
   * Makes a run and hands it to the thread. Gives the answer, inside of a list: what waits for it holds no text, which
   * dies young that way, and leaves the collector little to do.
   */
  async #handOver(make: () => Promise<ArchivedRun>): Promise<Promise<void>[]> {
    if (this.#waiting > MAX_WAITING) throw new Error("the disk is slower than the runs come");
    const run = await make();
    let at = 0;
    for (; run.record.length - at > PART_LENGTH; at += PART_LENGTH) {
      this.#thread.post({ kind: "part", part: run.record.slice(at, at + PART_LENGTH) });
      await this.#clock.sleep(0);
    }
    const answer = this.#ask((number) => ({
      kind: "add",
      number,
      run: { ...run, record: run.record.slice(at) },
    }));
    return [this.#written(answer, run.record.length + run.summary.length)];
  }

  /** Resolves when a run of so many characters is on disk. */
  async #written(answer: Promise<Answer>, length: number): Promise<void> {
    this.#waiting += length;
    try {
      await answer;
      this.#complained = false;
    } finally {
      this.#waiting -= length;
    }
  }

  #ask(message: (number: number) => ToArchive): Promise<Answer> {
    if (this.#unusable !== undefined) return Promise.reject(this.#unreadable(this.#unusable));
    const number = this.#number++;
    return new Promise((resolve, reject) => {
      if (this.#asked.size === 0) this.#thread.keepAlive(true);
      this.#asked.set(number, { resolve, reject });
      this.#thread.post(message(number));
    });
  }

  #take(message: FromArchive): void {
    switch (message.kind) {
      case "open":
        return this.#opened.resolve();
      case "closed":
        return this.#ended.resolve();
      case "unusable":
        return this.#fail(message.reason);
      case "unpruned":
        return this.#log.warning("Old runs stay in {path}: {reason}", { path: this.#path, ...message });
      case "failed":
        return this.#asking(message.number)?.reject(this.#unreadable(message.reason));
      default:
        return this.#asking(message.number)?.resolve(message);
    }
  }

  /** Whoever waits for the answer to a message. */
  #asking(number: number): Asked | undefined {
    const asked = this.#asked.get(number);
    this.#asked.delete(number);
    if (this.#asked.size === 0) this.#thread.keepAlive(false);
    return asked;
  }

  #fail(reason: string): void {
    if (this.#unusable !== undefined) return;
    this.#unusable = reason;
    this.#opened.reject(this.#unreadable(reason));
    this.#ended.resolve();
    for (const { reject } of this.#asked.values()) reject(this.#unreadable(reason));
    this.#asked.clear();
    if (!this.#isOpen) return;
    this.#log.error("Runs are not recorded in {path} any more: {reason}; a new start tries again", {
      path: this.#path,
      reason,
    });
  }

  /** Remembers a run that could not be written; complains once for many that fail one after the other. */
  #miss(id: string, reason: string): void {
    this.#missing.add(id);
    if (this.#missing.size > MAX_MISSING) this.#missing.delete([...this.#missing][0]!);
    if (this.#complained || this.#unusable !== undefined) return;
    this.#complained = true;
    this.#log.warning("Runs could not be recorded, they are kept in memory alone: {reason}", { reason });
  }

  #unreadable(reason: string): CanopyError {
    return new CanopyError(`Cannot use the records of runs in ${this.#path}: ${reason}`, {
      code: "records_unusable",
      status: 500,
    });
  }
}
