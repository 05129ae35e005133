import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { logger } from "../../base/log.ts";
import { type KubernetesPods, ResourceExpired } from "./kubernetes_api.ts";
import type { Member } from "./membership.ts";
import { memberOf, nameOf, type PodRules } from "./pods.ts";

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 30_000;

/** Options of `followPods`. */
export interface KubernetesDiscovery {
  readonly pods: KubernetesPods;
  readonly rules: PodRules;
  readonly clock: Clock;
  /** Called with all members whenever they may have changed. */
  readonly onMembers: (members: readonly Member[]) => void;
}

/**
 * Follows the pods until the signal aborts: lists them, watches from there, lists anew when the watch is too old (410)
 * or broken. While the API server is not reached the members stay as they are: their health is checked anyhow.
 * Never rejects.
 */
export async function followPods(discovery: KubernetesDiscovery, signal: AbortSignal): Promise<void> {
  const { clock } = discovery;
  const log = logger("discovery");
  let delayMs = FIRST_DELAY_MS;
  while (!signal.aborted) {
    try {
      await listAndWatch(discovery, signal, () => delayMs = FIRST_DELAY_MS);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ResourceExpired) log.info("The watch of pods was too old: listing them anew", {});
      else log.warning("Pods cannot be watched: {error}", { error: messageOf(error) });
    }
    await clock.sleep(delayMs, signal).catch(() => {});
    delayMs = Math.min(MAX_DELAY_MS, 2 * delayMs);
  }
}

/** Ends only by throwing. `onWorking` is called as often as the API server answers. */
async function listAndWatch(
  { pods, rules, clock, onMembers }: KubernetesDiscovery,
  signal: AbortSignal,
  onWorking: () => void,
): Promise<void> {
  const listed = await pods.list(signal);
  onWorking();
  const members = new Map<string, Member | undefined>();
  const publish = () => onMembers([...members.values()].filter((member) => member !== undefined));
  for (const pod of listed.items) members.set(nameOf(pod), memberOf(pod, rules));
  publish();
  let version = listed.resourceVersion;
  while (true) {
    const beganMs = clock.now();
    for await (const { type, object } of pods.watch(version, signal)) {
      onWorking();
      if (isJsonObject(object.metadata)) version = String(object.metadata.resourceVersion ?? version);
      // A bookmark changes nothing here; models may have come since.
      if (type === "DELETED") members.delete(nameOf(object));
      else if (type !== "BOOKMARK") members.set(nameOf(object), memberOf(object, rules));
      publish();
    }
    // A server that ends every watch at once must not be asked without pause.
    if (clock.now() - beganMs < FIRST_DELAY_MS) await clock.sleep(FIRST_DELAY_MS, signal);
  }
}
