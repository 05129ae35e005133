import process from "node:process";
import {
  configureSync,
  getLogger,
  getTextFormatter,
  jsonLinesFormatter,
  type Logger,
  type LogLevel,
} from "@logtape/logtape";

export type { Logger };

/** The logger of one part of the program, such as `logger("pool")`. Silent until `startLog` was called. */
export function logger(...category: string[]): Logger {
  return getLogger(["canopy", ...category]);
}

// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

const textFormatter = getTextFormatter({
  // Text from clients must not look like a log line of its own.
  value: (value, inspect) => typeof value === "string" && !CONTROL.test(value) ? value : inspect(value),
});

/** Sends log records of `level` and above to the standard error stream, as JSON lines or as text. */
export function startLog(options: { level: LogLevel; format: "json" | "text" }): void {
  const format = options.format === "json" ? jsonLinesFormatter : textFormatter;
  configureSync({
    reset: true,
    sinks: { stderr: (record) => void process.stderr.write(format(record)) },
    loggers: [
      { category: "canopy", lowestLevel: options.level, sinks: ["stderr"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["stderr"] },
    ],
  });
}
