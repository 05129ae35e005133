import type { Provenance } from "./load.ts";
import { type ConfigPath, isWithin, parsePath } from "../schema/config_path.ts";

/** Origins of the values of a configuration while it is changed: told by whoever reads it. */
export class ConfigOrigins {
  #of: ((path: ConfigPath) => Provenance) | undefined;

  /** Takes over the origins of a configuration that is in effect now, but for `kept` paths, whose values have stayed. */
  read(of: (path: ConfigPath) => Provenance, kept: readonly string[] = []): void {
    const before = this.#of;
    const stayed = kept.flatMap((path) => {
      const parsed = parsePath(path);
      return parsed === undefined ? [] : [parsed];
    });
    this.#of = before === undefined || stayed.length === 0
      ? of
      : (path) => stayed.some((one) => isWithin(path, one)) ? before(path) : of(path);
  }

  /** Undefined where nobody has told. */
  of(path: ConfigPath): Provenance | undefined {
    return this.#of?.(path);
  }
}
