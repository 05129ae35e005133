/** A run as the archive holds it: what lists are filtered by, and the JSON texts that clients are given. */
export interface ArchivedRun {
  readonly id: string;
  /** As in its `RunInput`. */
  readonly owner: string | undefined;
  /** Id of the client's request. */
  readonly requestId: string | undefined;
  readonly graph: string;
  readonly state: string;
  readonly endedAtUnixMs: number;
  /** An object as it stands in a list. */
  readonly summary: string;
  /** The whole object, with `events` as a list. */
  readonly record: string;
}

/** Runs that a list has; those of the archive are ended ones. Absent fields do not matter. */
export interface ArchiveFilter {
  /** Only runs of this owner. */
  readonly owner?: string | undefined;
  readonly graph?: string | undefined;
  readonly state?: string | undefined;
  readonly requestId?: string | undefined;
}

/** A part of the archive's list, the newest first. */
export interface ArchivePage extends ArchiveFilter {
  /** Most runs. */
  readonly limit: number;
  /** Only runs that ended before this one; none where it is not kept any more, since all of them are older. */
  readonly after?: string | undefined;
}

/** Bounds of what is kept; the oldest runs go first. */
export interface ArchiveBounds {
  readonly maxAgeMs: number;
  /** Of the file; its write-ahead log beside it has a few MiB more. */
  readonly maxBytes: number;
}
