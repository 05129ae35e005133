import { UsageError } from "../../kit/args.ts";
import type { Io } from "../../kit/io.ts";
import type { ConfigChoice } from "./eval_targets.ts";

/** What Faster-MoA's driver is told by its environment, as options. */
interface DriverOptions {
  readonly samples: number | undefined;
  readonly concurrency: number | undefined;
  readonly config: readonly ConfigChoice[];
  readonly url: string | undefined;
}

/** Variables that Faster-MoA's driver reads. */
export const DRIVER_VARIABLES: readonly string[] = ["NUM_SAMPLES", "QUESTION_BATCH_SIZE", "CONFIG_PATH"];

/**
 * The options with those that are not given taken from the environment of Faster-MoA's driver, and one line for each
 * that was: NUM_SAMPLES, QUESTION_BATCH_SIZE, CONFIG_PATH. Throws `UsageError` naming the variable.
 */
export function withDriverVariables<Values extends DriverOptions>(
  values: Values,
  { env, err }: Pick<Io, "env" | "err">,
): Values {
  const taken: string[] = [];
  const count = (given: number | undefined, option: string, name: string) => {
    const text = env[name];
    if (given !== undefined || text === undefined || text === "") return given;
    if (!/^[1-9]\d{0,8}$/.test(text)) {
      throw new UsageError(
        `Variable ${name} must be a whole number of at least 1: current value is "${text}"`,
      );
    }
    taken.push(`--${option} ${text} (${name})`);
    return Number(text);
  };
  const samples = count(values.samples, "samples", "NUM_SAMPLES");
  const concurrency = count(values.concurrency, "concurrency", "QUESTION_BATCH_SIZE");
  const path = env["CONFIG_PATH"];
  const takesPath = path !== undefined && path !== "" && values.config.length === 0 &&
    values.url === undefined;
  if (takesPath) taken.push(`--config ${path} (CONFIG_PATH)`);
  if (taken.length > 0) err.write(`From the environment: ${taken.join(", ")}\n`);
  return { ...values, samples, concurrency, config: takesPath ? [path] : values.config };
}
