import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { ModelService } from "../../router/served/models.ts";
import type { Placement } from "../../router/worker/placement.ts";

/** The first hand-off connects the two servers and may compile kernels. */
const TOKEN_MS = 180_000;

/** Options of `checkPairs`. */
export interface PairCheckOptions {
  /** With the workers of the plan. */
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
}

/**
 * Lets every prefill and decode server of these models generate a token together: each half may be healthy while the
 * cache does not get from one to the other. Throws a `CanopyError` that names the pair which does not.
 */
export async function checkPairs(
  models: readonly string[],
  options: PairCheckOptions,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(models.map((model) => checkModel(model, options, signal)));
}

async function checkModel(name: string, options: PairCheckOptions, signal: AbortSignal): Promise<void> {
  const { clock } = options;
  const config = options.config.models[name];
  if (config === undefined || !config.engine.endsWith("-pd")) return;
  const life = new AbortController();
  const onAbort = () => life.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const service = new ModelService(name, config, options);
  try {
    await service.start(life.signal);
    // Taken at once, the least busy servers are each taken in turn.
    const places = config.workers.map(() => service.pool.gate.leaseNow({}));
    for (const [index, place] of places.entries()) {
      await generate(service, place, { id: `launch-${name}-${index}`, clock, signal: life.signal });
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    life.abort(new Error("The pairs were checked"));
  }
}

async function generate(
  service: ModelService,
  place: Placement,
  { id, clock, signal }: { readonly id: string; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const late = new Error(`no token within ${TOKEN_MS / 1000} s`);
  const deadline = deadlineSignal(clock, TOKEN_MS, late, signal);
  try {
    const request = {
      id,
      prompt: { kind: "text", text: "Hello" },
      sampling: { max_tokens: 1, temperature: 0 },
    } as const;
    for await (const event of service.engine.generate(request, place, deadline.signal)) {
      if (event.type === "end" && event.decodedAlone !== undefined) throw new Error(event.decodedAlone);
    }
    place.release("ok");
  } catch (error) {
    place.release("failed");
    signal.throwIfAborted();
    throw new CanopyError(
      `Model ${service.name}: the prefill server ${
        place.prefill?.url ?? "(none)"
      } and the decode server ${place.url} ` +
        `do not generate together: ${messageOf(error)}; see their logs, and launch.${
          service.config.engine.replace("-pd", "")
        }.extra_args for another way of transfer`,
      { code: "pair_failed", status: 500, cause: error },
    );
  } finally {
    deadline.release();
  }
}
