import process from "node:process";
import { type EngineKind, engineKinds } from "./engine_process.ts";

/** All engines, or those that CANOPY_ENGINES names, such as `vllm-0.32.0,sglang-0.5.18`. */
export const kindsUnderTest: readonly EngineKind[] = choose(process.env["CANOPY_ENGINES"]);

function choose(names: string | undefined): readonly EngineKind[] {
  if (names === undefined || names === "") return engineKinds;
  return names.split(",").map((name) => {
    const kind = engineKinds.find(({ engine, version }) => `${engine}-${version}` === name);
    if (kind !== undefined) return kind;
    const known = engineKinds.map(({ engine, version }) => `${engine}-${version}`).join(", ");
    throw new Error(`CANOPY_ENGINES names an unknown engine "${name}": known are ${known}`);
  });
}
