import type { Clock } from "../../../base/clock.ts";
import type { StartArchive, ToArchive } from "../../../router/archive/archive_thread.ts";
import { serveArchive } from "../../../router/archive/serve_archive.ts";

/** The archive's thread without a thread; `seen` gets each message before it is taken, and may throw as a dying thread does. */
export function inlineArchive(clock: Clock, seen: (message: ToArchive) => void = () => {}): StartArchive {
  return (options, events) => {
    let over = false;
    const take = Promise.resolve().then(() =>
      serveArchive(options, clock, (message) => {
        if (!over) events.message(message);
      })
    );
    return {
      post: (message) =>
        void take.then((serve) => {
          if (over) return;
          try {
            seen(message);
          } catch (error) {
            over = true;
            return events.crash(error instanceof Error ? error.message : String(error));
          }
          serve(message);
        }),
      keepAlive: () => {},
      terminate: () => over = true,
    };
  };
}
