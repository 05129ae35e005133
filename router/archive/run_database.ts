import { closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { ArchiveBounds, ArchivedRun, ArchivePage } from "./archived_run.ts";

/** `CNPY`: by it the file is known as one of Canopy's. */
const APPLICATION_ID = 0x434e5059;
/** Time for which a statement waits for another process that writes, such as a second server. */
const BUSY_MS = 5_000;
/** Level of deflate: the fastest makes a tenth of a record without texts, the slowest little less. */
const COMPRESSION = 1;
/** Most runs that go in one transaction. */
const PRUNED_AT_ONCE = 100;
/** Most pages that are given back to the system at once. */
const PAGES_AT_ONCE = 256;

/** Each brings a file from the version before it to the next one; the first begins with an empty file. */
const MIGRATIONS = [
  `CREATE TABLE runs (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL UNIQUE,
     owner TEXT,
     request_id TEXT,
     graph TEXT NOT NULL,
     state TEXT NOT NULL,
     ended_at_unix_ms REAL NOT NULL,
     summary TEXT NOT NULL,
     record BLOB NOT NULL
   );
   CREATE INDEX runs_of_owner ON runs (owner) WHERE owner IS NOT NULL;
   CREATE INDEX runs_of_request ON runs (request_id) WHERE request_id IS NOT NULL;
   CREATE INDEX runs_of_graph ON runs (graph);
   CREATE INDEX runs_in_state ON runs (state);
   CREATE INDEX runs_by_age ON runs (ended_at_unix_ms);`,
];

/**
 * Ended runs in an SQLite file. Each is written in a transaction of its own, so that a killed process loses at most
 * the one that it was writing. Blocks its thread. Its methods throw what SQLite throws.
 */
export class RunDatabase {
  readonly #database: DatabaseSync;
  readonly #bounds: ArchiveBounds;
  readonly #statements = new Map<string, StatementSync>();
  readonly #pageBytes: number;

  /**
   * Opens the file, which only its owner may read, and makes it if it is not there. Throws with the reason.
   * `busyMs`: time for which a statement waits for another process.
   */
  constructor(path: string, bounds: ArchiveBounds, busyMs: number = BUSY_MS) {
    mkdirSync(dirname(path), { recursive: true });
    closeSync(openSync(path, "a", 0o600));
    this.#database = new DatabaseSync(path);
    this.#bounds = bounds;
    try {
      this.#database.exec(`PRAGMA busy_timeout = ${busyMs}`);
      this.#migrate();
      this.#database.exec(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304",
      );
      this.#pageBytes = this.#pragma("page_size");
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  /** Keeps a run; one that is there stays as it is. */
  add(run: ArchivedRun): void {
    this.#statement(
      `INSERT OR IGNORE INTO runs (id, owner, request_id, graph, state, ended_at_unix_ms, summary, record)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ).run(
      run.id,
      run.owner ?? null,
      run.requestId ?? null,
      run.graph,
      run.state,
      run.endedAtUnixMs,
      run.summary,
      deflateRawSync(run.record, { level: COMPRESSION }),
    );
  }

  /** Summaries of a page, the newest first, and whether there are more behind it. */
  list(page: ArchivePage): { readonly runs: readonly ListedRow[]; readonly more: boolean } {
    const { sql, values } = listStatement(page);
    const rows = this.#statement(sql).all(...values);
    const runs = rows.slice(0, page.limit).map((row) => ({
      id: String(row["id"]),
      summary: String(row["summary"]),
    }));
    return { runs, more: rows.length > page.limit };
  }

  /** A run's owner, state and record, as UTF-8; undefined when it is not kept. */
  get(id: string): KeptRun | undefined {
    const row = this.#statement("SELECT owner, state, record FROM runs WHERE id = ?").get(id);
    if (row === undefined) return undefined;
    const { owner, state, record } = row;
    if (!(record instanceof Uint8Array)) throw new Error(`the record of ${id} is none`);
    return {
      owner: typeof owner === "string" ? owner : undefined,
      state: String(state),
      record: inflateRawSync(record),
    };
  }

  /** Removes some of what is too old or too much. True when there may be more of it. */
  prune(nowUnixMs: number): boolean {
    const { maxAgeMs, maxBytes } = this.#bounds;
    const { changes } = this.#statement(
      `DELETE FROM runs WHERE seq IN
         (SELECT seq FROM runs WHERE ended_at_unix_ms < ? ORDER BY ended_at_unix_ms LIMIT ${PRUNED_AT_ONCE})`,
    ).run(nowUnixMs - maxAgeMs);
    let more = Number(changes) === PRUNED_AT_ONCE;
    if (this.#usedBytes > maxBytes) more = this.#removeOldest() || more;
    if (this.#pragma("page_count") * this.#pageBytes > maxBytes && this.#pragma("freelist_count") > 0) {
      // Run to its end by reading all of its rows: exec takes one step on Deno.
      this.#database.prepare(`PRAGMA incremental_vacuum(${PAGES_AT_ONCE})`).all();
      more ||= this.#pragma("page_count") * this.#pageBytes > maxBytes;
    }
    return more;
  }

  /** Writes all into the one file and closes it. */
  close(): void {
    this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    this.#database.close();
  }

  /** Removes the oldest runs until the rest is small enough, or so many are gone. True in the second case. */
  #removeOldest(): boolean {
    const remove = this.#statement("DELETE FROM runs WHERE seq = (SELECT min(seq) FROM runs)");
    let removed = 0;
    this.#inTransaction(() => {
      while (removed < PRUNED_AT_ONCE && this.#usedBytes > this.#bounds.maxBytes) {
        if (Number(remove.run().changes) === 0) return;
        removed++;
      }
    });
    return removed === PRUNED_AT_ONCE;
  }

  /** Bytes of pages with something in them. */
  get #usedBytes(): number {
    return (this.#pragma("page_count") - this.#pragma("freelist_count")) * this.#pageBytes;
  }

  #migrate(): void {
    const known = MIGRATIONS.length;
    if (this.#version() === known) return;
    // It takes effect in an empty file alone.
    this.#database.exec("PRAGMA auto_vacuum = INCREMENTAL");
    this.#inTransaction(() => {
      // Another server may have done it meanwhile.
      for (const migration of MIGRATIONS.slice(this.#version())) this.#database.exec(migration);
      this.#database.exec(`PRAGMA user_version = ${known}; PRAGMA application_id = ${APPLICATION_ID}`);
    });
  }

  /** Version of the file's tables, 0 for an empty file. Throws where it is not for us to change. */
  #version(): number {
    const isEmpty = this.#database.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() === undefined;
    if (isEmpty) return 0;
    if (this.#pragma("application_id") !== APPLICATION_ID) {
      throw new Error("it is an SQLite file of another program");
    }
    const version = this.#pragma("user_version");
    if (version <= MIGRATIONS.length) return version;
    throw new Error(
      `it was written by a newer Canopy (version ${version} of its tables; this one knows ${MIGRATIONS.length})`,
    );
  }

  #inTransaction(work: () => void): void {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#database.exec("COMMIT");
    } catch (error) {
      this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  #pragma(name: "page_count" | "freelist_count" | "page_size" | "user_version" | "application_id"): number {
    return Number(this.#statement(`PRAGMA ${name}`).get()?.[name]);
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** The statement that lists a page of runs, and one more. */
export function listStatement(
  page: ArchivePage,
): { readonly sql: string; readonly values: readonly SQLInputValue[] } {
  const conditions: string[] = [];
  const values: SQLInputValue[] = [];
  const only = (condition: string, value: string | undefined) => {
    if (value === undefined) return;
    conditions.push(condition);
    values.push(value);
  };
  only("owner = ?", page.owner);
  only("graph = ?", page.graph);
  only("state = ?", page.state);
  only("request_id = ?", page.requestId);
  // Of one that is gone there is no number, and so nothing is before it.
  only("seq < (SELECT seq FROM runs WHERE id = ?)", page.after);
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
  const sql = `SELECT id, summary FROM runs ${where} ORDER BY seq DESC LIMIT ?`;
  return { sql, values: [...values, page.limit + 1] };
}

/** A run in a list of the archive. */
export interface ListedRow {
  readonly id: string;
  readonly summary: string;
}

/** A run of the archive with its record. */
export interface KeptRun {
  readonly owner: string | undefined;
  readonly state: string;
  readonly record: Uint8Array;
}
