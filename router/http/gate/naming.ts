import type { Call } from "./context.ts";
import type { HttpServices } from "./services.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import { shownUrl } from "../../worker/worker_access.ts";

/** Names workers as the caller may know them: by their addresses to the operator, to others by their ids. */
export function naming({ keys }: HttpServices, call: Call): (worker: WorkerStatus) => string {
  const operator = keys.mayTouch(undefined, call.req.header("authorization"));
  return (worker) => operator ? shownUrl(worker) : worker.id;
}
