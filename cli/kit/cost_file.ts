import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../base/errors.ts";
import type { CostParameters } from "../../simulator/engine/cost.ts";
import { readCostFile } from "../../simulator/engine/cost_file.ts";
import { UsageError } from "./args.ts";
import type { Io } from "./io.ts";

/**
 * The cost that an option names: one of `sizes`, or a file of `canopy bench calibrate`. Throws `UsageError` for what is
 * neither.
 */
export function costNamed<Size extends string>(
  text: string,
  sizes: readonly Size[],
  io: Pick<Io, "cwd">,
): Size | CostParameters {
  const size = sizes.find((one) => one === text);
  if (size !== undefined) return size;
  try {
    return readCostFile(readFileSync(resolve(io.cwd, text), "utf8"));
  } catch (cause) {
    throw new UsageError(
      `Option --cost must be one of ${sizes.join(", ")}, or a file of canopy bench calibrate: ` +
        `cannot read "${text}": ${messageOf(cause)}`,
    );
  }
}
