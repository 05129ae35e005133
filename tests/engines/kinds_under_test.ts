import process from "node:process";
import { type EngineKind, engineKinds, isPair } from "./engine_process.ts";

/** All engines, or those that CANOPY_ENGINES names, such as `vllm-0.32.0,sglang-pd-0.5.18`. */
const kinds: readonly EngineKind[] = choose(process.env["CANOPY_ENGINES"]);

/** Those of them that are one server. */
export const kindsUnderTest: readonly EngineKind[] = kinds.filter((kind) => !isPair(kind));

/** Those of them that are a prefill and a decode server. */
export const pairsUnderTest: readonly EngineKind[] = kinds.filter(isPair);

function choose(names: string | undefined): readonly EngineKind[] {
  if (names === undefined || names === "") return engineKinds;
  return names.split(",").map((name) => {
    const kind = engineKinds.find(({ engine, version }) => `${engine}-${version}` === name);
    if (kind !== undefined) return kind;
    const known = engineKinds.map(({ engine, version }) => `${engine}-${version}`).join(", ");
    throw new Error(`CANOPY_ENGINES names an unknown engine "${name}": known are ${known}`);
  });
}
