import type { Api } from "./api.ts";
import { textField } from "../state/json_fields.ts";
import { plannedRun, recordedRun, type RunView, withEvent } from "../state/run_view.ts";

/** Options of `followRun`. */
export interface FollowOptions {
  readonly signal: AbortSignal;
  /** Gets the run as it has become, at most once a frame. */
  readonly show: (run: RunView) => void;
}

/** Shows a run as it goes on, and its record when it has ended. Throws `ApiError`. */
export async function followRun(api: Api, id: string, { signal, show }: FollowOptions): Promise<void> {
  const path = `/v1/runs/${encodeURIComponent(id)}`;
  const record = await api.json(path, { signal });
  if (textField(record, "state") !== "running") return show(recordedRun(record));
  let run = plannedRun(record);
  let frame = 0;
  const draw = () => {
    frame = 0;
    show(run);
  };
  try {
    for await (const event of api.events(`${path}/events?texts=true`, { signal })) {
      run = withEvent(run, event);
      if (frame === 0) frame = requestAnimationFrame(draw);
    }
  } finally {
    if (frame !== 0) cancelAnimationFrame(frame);
  }
  show(recordedRun(await api.json(path, { signal })));
}

/** The id of the run that a request has started; undefined when `signal` aborts before. Throws `ApiError`. */
export async function runOfRequest(
  api: Api,
  requestId: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  while (!signal.aborted) {
    const found = await api.json(`/v1/runs?request_id=${encodeURIComponent(requestId)}`, { signal });
    const id = textField(found, "data", 0, "id");
    if (id !== "") return id;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return undefined;
}

const POLL_MS = 100;
