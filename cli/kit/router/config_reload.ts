import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { messageOf } from "../../../base/errors.ts";
import { type Logger, logger, startLog } from "../../../base/log.ts";
import { liveChange } from "../../../cfgs/check/live_change.ts";
import type { LoadedConfig } from "../../../cfgs/load/load.ts";
import { configProblemText } from "../../../cfgs/load/problems.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { Router } from "../../../router/router.ts";
import type { Io } from "../io.ts";

/** Time between two looks at the files: clusters replace them by links, which no watch on a file sees. */
const LOOK_MS = 2_000;

/** A configuration that was read again. */
export interface ReadAgain extends LoadedConfig {
  /** Paths of changed settings that `config` leaves as they are. */
  readonly later?: readonly string[] | undefined;
}

/** A configuration that can be read again. */
export interface ReloadSource {
  /** Reads the file, with the same flags and variables laid over it. Throws `ConfigError`. */
  readonly read: () => ReadAgain;
  /** Files that it is read from. */
  readonly files: readonly string[];
}

/** Options of `ConfigReload`. */
export interface ConfigReloadOptions {
  /** Undefined where all settings come from the command line. */
  readonly source: ReloadSource | undefined;
  /** What the router was started with. */
  readonly config: Config;
  readonly router: Pick<Router, "reconfigure" | "reloads" | "origins">;
  readonly io: Pick<Io, "clock" | "onHangUp">;
}

/** Reads a router's configuration again on SIGHUP and when its files have changed. */
export class ConfigReload {
  readonly #options: ConfigReloadOptions;
  readonly #log: Logger = logger("config");
  /** In effect. */
  #config: Config;

  constructor(options: ConfigReloadOptions) {
    this.#options = options;
    this.#config = options.config;
    options.router.reloads.started(hashOf(this.#config));
  }

  /** Follows signal and files until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { io, source } = this.#options;
    const off = io.onHangUp(() => this.reload());
    signal.addEventListener("abort", off, { once: true });
    if (source !== undefined) await this.#watch(source, signal);
  }

  /** Reads the configuration again. A bad one is logged, and the old one stays. */
  reload(): void {
    const { source, router } = this.#options;
    if (source === undefined) {
      this.#log.warning(
        "SIGHUP: there is nothing to read again, all settings come from the command line: put them into a file " +
          "(canopy serve FILE), or start anew",
      );
      return;
    }
    try {
      const { config: read, source: name, warnings, provenance, later: held = [] } = source.read();
      const { config, now, later: atStart } = liveChange(this.#config, read);
      const later = [...held, ...atStart];
      this.#apply(config, later);
      router.origins.read(provenance, later);
      router.reloads.ended(now.length === 0 ? "unchanged" : "applied", hashOf(this.#config));
      for (const warning of warnings) this.#log.warning("{problem}", { problem: configProblemText(warning) });
      if (now.length > 0) {
        this.#log.info("{name} was read again, in effect for new requests: {changed}", {
          name,
          changed: now.join(", "),
        });
      } else if (later.length === 0) this.#log.info("{name} was read again: nothing has changed", { name });
      if (later.length > 0) {
        this.#log.warning("{changed} changed: takes effect at the next start", { changed: later.join(", ") });
      }
    } catch (error) {
      router.reloads.ended("refused", hashOf(this.#config));
      this.#log.error("The configuration stays as it was: {problem}", { problem: messageOf(error) });
    }
  }

  #apply(config: Config, later: readonly string[]): void {
    try {
      this.#options.router.reconfigure(config);
    } catch (error) {
      if (later.length === 0) throw error;
      throw new Error(`${messageOf(error)} (${later.join(", ")} would take effect at the next start)`);
    }
    const { server } = this.#config;
    this.#config = config;
    if (server.log_level === config.server.log_level && server.log_format === config.server.log_format) {
      return;
    }
    startLog({
      level: config.server.log_level,
      format: config.server.log_format,
      folder: config.server.log_dir,
    });
  }

  /** A change counts once two looks have seen the same: an editor may be writing. */
  async #watch(source: ReloadSource, signal: AbortSignal): Promise<void> {
    let seen = this.#fingerprint();
    let known = this.#isInEffect(source) ? seen : undefined;
    while (!signal.aborted) {
      await this.#options.io.clock.sleep(LOOK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      const now = this.#fingerprint();
      if (now !== known && now === seen) {
        known = now;
        this.reload();
      }
      seen = now;
    }
  }

  /** False where the files have changed since they were read for the start, which takes a while. */
  #isInEffect(source: ReloadSource): boolean {
    try {
      const { config, later: held = [] } = source.read();
      const { now, later } = liveChange(this.#config, config);
      return now.length + later.length + held.length === 0;
    } catch {
      return false;
    }
  }

  /** A hash of what the files hold, those with certificates for workers among them. */
  #fingerprint(): string {
    const { worker_tls: tls } = this.#config.server;
    const certificates = tls === undefined ? [] : [...tls.ca, tls.cert ?? "", tls.key ?? ""];
    const hash = createHash("sha256");
    for (const file of [...this.#options.source?.files ?? [], ...certificates]) {
      hash.update(`${file}\0${contentOf(file)}\0`);
    }
    return hash.digest("hex");
  }
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** The beginning of a hash that equal configurations have in common. */
function hashOf(config: Config): string {
  return createHash("sha256").update(JSON.stringify(config)).digest("hex").slice(0, 12);
}
