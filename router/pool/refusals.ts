import { CanopyError } from "../../base/errors.ts";
import type { Worker } from "./worker.ts";

/** The error of a pool whose workers are well but have no room: it says when to ask again. */
export function fullError(model: string, why: string): CanopyError {
  return new CanopyError(`Cannot place the request: ${why} at model ${model}; try again later`, {
    code: "no_worker",
    status: 503,
    retryAfterSeconds: 1,
  });
}

/** The error of a pool without a usable worker of a kind (`worker`, `prefill server`, …). */
export function unusableError(
  model: string,
  kind: string,
  workers: readonly Worker[],
  excluding: boolean,
): CanopyError {
  const total = workers.length;
  const healths = workers.map((worker) => worker.status.health);
  const count = (health: string) => healths.filter((one) => one === health).length;
  const { id, status: { missingModel } = {} } =
    workers.find(({ status }) => status.missingModel !== undefined) ?? {};
  const reason = total === 0
    ? `it has no ${kind}s; add one to the configuration`
    : excluding && workers.some((worker) => worker.inService)
    ? "the request has failed on every healthy one"
    : `of its ${total} ${kind}${total === 1 ? "" : "s"} ${count("unhealthy")} are unhealthy and ` +
      `${count("draining")} are draining` +
      (missingModel === undefined ? "" : `; ${id} does not serve "${missingModel}"`);
  return new CanopyError(`Cannot place the request: model ${model} has no usable ${kind}: ${reason}`, {
    code: "no_worker",
    status: 503,
  });
}
