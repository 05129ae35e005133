import { useRef, useState } from "preact/hooks";
import { usePolled } from "./use_polled.ts";
import type { Api } from "../client/api.ts";
import {
  pathOfNewest,
  pathOfOlder,
  readRunPage,
  type RunPages,
  type RunQuery,
  withNewest,
  withOlder,
} from "../state/run_pages.ts";

const POLL_MS = 2_000;

/** The runs that a query finds: the newest as they are, older ones when they are asked for. */
export interface LoadedRuns {
  /** Undefined until the first page is there. */
  readonly pages: RunPages | undefined;
  readonly error: Error | undefined;
  /** True while older ones are on their way. */
  readonly busy: boolean;
  readonly loadOlder: () => void;
}

/** Older runs of a query that are or were asked for. */
interface OlderRuns {
  readonly key: string;
  readonly busy: boolean;
  readonly error: Error | undefined;
}

/** Loads the runs of a query while the view is there; another query begins anew. */
export function useRunPages(api: Api, query: RunQuery): LoadedRuns {
  const key = JSON.stringify(query);
  const known = useRef<{ readonly key: string; readonly pages: RunPages } | undefined>(undefined);
  /** The last try to load older runs. */
  const [older, setOlder] = useState<OlderRuns>({ key: "", busy: false, error: undefined });
  const of = () => known.current?.key === key ? known.current.pages : undefined;
  const polled = usePolled(async (signal) => {
    const page = readRunPage(await api.json(pathOfNewest(query, of()), { signal }));
    const before = of();
    signal.throwIfAborted();
    known.current = { key, pages: before === undefined ? page : withNewest(before, page) };
  }, { everyMs: POLL_MS, key });
  const loadOlder = () => {
    const before = of();
    if (before === undefined || (older.key === key && older.busy)) return;
    setOlder({ key, busy: true, error: undefined });
    const load = async () => {
      const page = readRunPage(await api.json(pathOfOlder(query, before)));
      const now = of();
      // The list may have begun anew meanwhile: then this is not the page behind it.
      if (now !== undefined && now.runs.at(-1)?.id === before.runs.at(-1)?.id) {
        known.current = { key, pages: withOlder(now, page) };
      }
    };
    load().then(
      () => setOlder({ key, busy: false, error: undefined }),
      (error) =>
        setOlder({ key, busy: false, error: error instanceof Error ? error : new Error(String(error)) }),
    );
  };
  const { busy, error } = older.key === key ? older : { busy: false, error: undefined };
  return { pages: of(), error: error ?? polled.error, busy, loadOlder };
}
