import { CanopyError } from "../../base/errors.ts";
import { formatPath } from "../schema/config_path.ts";
import type { ConfigFinding } from "../schema/explain.ts";

/** A place in a file; lines and columns count from 1. */
export interface Location {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One thing that is wrong (or doubtful) in a configuration. */
export interface ConfigProblem {
  /** A warning does not keep the configuration from being used. */
  readonly severity: "error" | "warning";
  /** The file, preset, flag or environment variable at fault. */
  readonly file: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
  /** Such as `graphs.moa.layers[0].agents[2].model`; empty for the whole file. */
  readonly path: string;
  /** The value given; `"***"` in place of a secret. */
  readonly value: unknown;
  /** The whole sentence: path, value, and what was expected. */
  readonly message: string;
}

/** A finding as a problem of `file` (a flag, a variable), or of a line in it. */
export function problemOf(
  finding: Pick<ConfigFinding, "severity" | "path" | "value" | "message">,
  file: string,
  location?: Pick<Location, "line" | "column">,
): ConfigProblem {
  const { severity, path, value, message } = finding;
  return {
    severity,
    file,
    line: location?.line,
    column: location?.column,
    path: formatPath(path),
    value,
    message,
  };
}

/** `canopy.jsonc:12:7: server.port is "x": expected a whole number`. */
export function configProblemText(problem: ConfigProblem): string {
  const place = problem.line === undefined
    ? problem.file
    : `${problem.file}:${problem.line}:${problem.column ?? 1}`;
  return `${place}: ${problem.severity === "warning" ? "warning: " : ""}${problem.message}`;
}

/** A configuration that cannot be used; its text has one line for each problem. */
export class ConfigError extends CanopyError {
  override readonly name = "ConfigError";
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(configProblemText).join("\n"), { code: "config_invalid", status: 500 });
    this.problems = problems;
  }

  /** An error about a whole file. */
  static of(file: string, message: string): ConfigError {
    return new ConfigError([problemOf({ severity: "error", path: [], value: undefined, message }, file)]);
  }
}
