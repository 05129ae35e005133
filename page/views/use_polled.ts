import { useEffect, useState } from "preact/hooks";

/** What was last loaded, and the error of the last try. */
export interface Polled<T> {
  readonly value: T | undefined;
  readonly error: Error | undefined;
}

/** Loads again and again while the view is there; `key` changes with what is loaded. */
export function usePolled<T>(
  load: (signal: AbortSignal) => Promise<T>,
  { everyMs, key }: { readonly everyMs: number; readonly key: string },
): Polled<T> {
  const [state, setState] = useState<Polled<T>>({ value: undefined, error: undefined });
  useEffect(() => {
    const gone = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const turn = async () => {
      try {
        const value = await load(gone.signal);
        if (!gone.signal.aborted) setState({ value, error: undefined });
      } catch (error) {
        if (!gone.signal.aborted) {
          setState((before) => ({
            ...before,
            error: error instanceof Error ? error : new Error(String(error)),
          }));
        }
      }
      if (!gone.signal.aborted) timer = setTimeout(turn, everyMs);
    };
    void turn();
    return () => {
      gone.abort();
      clearTimeout(timer);
    };
  }, [everyMs, key]);
  return state;
}
