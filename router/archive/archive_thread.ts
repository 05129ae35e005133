import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../../ml/onnx/thread.ts";
import type { ArchiveBounds, ArchivedRun, ArchivePage } from "./archived_run.ts";

/** Options of the thread that has the archive's file. */
export interface ArchiveOptions {
  /** Absolute path of the file. */
  readonly path: string;
  readonly bounds: ArchiveBounds;
}

/** Messages to the thread; it takes them one after the other. */
export type ToArchive =
  /** A piece of the next run's record, which is too long to be handed over in one turn. */
  | { readonly kind: "part"; readonly part: string }
  | { readonly kind: "add"; readonly number: number; readonly run: ArchivedRun }
  | {
    readonly kind: "list";
    readonly number: number;
    readonly page: ArchivePage;
    readonly but: readonly string[];
  }
  | { readonly kind: "get"; readonly number: number; readonly id: string }
  | { readonly kind: "events"; readonly number: number; readonly id: string }
  | { readonly kind: "close" };

/** Messages of the thread; those with a number answer the message of that number. */
export type FromArchive =
  /** The file can be used. */
  | { readonly kind: "open" }
  /** It cannot, or no longer. */
  | { readonly kind: "unusable"; readonly reason: string }
  | { readonly kind: "added"; readonly number: number }
  | { readonly kind: "page"; readonly number: number; readonly page: ArchivedPage }
  | { readonly kind: "run"; readonly number: number; readonly run: ArchivedRecord | undefined }
  | { readonly kind: "events"; readonly number: number; readonly events: readonly string[] }
  | { readonly kind: "failed"; readonly number: number; readonly reason: string }
  /** Old runs could not be removed. */
  | { readonly kind: "unpruned"; readonly reason: string }
  | { readonly kind: "closed" };

/** A part of the list: its objects with commas between them, as UTF-8. */
export interface ArchivedPage {
  readonly count: number;
  /** Id of the last run, where the next part goes on; undefined where there is none. */
  readonly last: string | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly more: boolean;
}

/** A run's record, as UTF-8. */
export interface ArchivedRecord {
  readonly owner: string | undefined;
  readonly state: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Starts a thread with an archive. */
export type StartArchive = (options: ArchiveOptions, events: ThreadEvents<FromArchive>) => Thread<ToArchive>;

const file: ThreadFile = {
  url: new URL("./archive_worker.ts", import.meta.url),
  bundled: "./router/archive/archive_worker.ts",
};

/** Starts `archive_worker.ts`. The process does not wait for it. */
export const startArchiveThread: StartArchive = (options, events) => startThread(file, options, events);
