import { mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  configureSync,
  getLogger,
  getTextFormatter,
  jsonLinesFormatter,
  type Logger,
  type LogLevel,
  type LogRecord,
} from "@logtape/logtape";

import { CanopyError, messageOf } from "./errors.ts";

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

/** Where log records go, and which. */
export interface LogOptions {
  readonly level: LogLevel;
  readonly format: "json" | "text";
  /** Folder of `canopy.log`, to which records are appended as well; made if it is not there. */
  readonly folder?: string | undefined;
}

/**
 * Sends log records of `level` and above to the standard error stream, as JSON lines or as text. Throws `CanopyError`
 * (500) when nothing can be written into the folder.
 */
export function startLog(options: LogOptions): void {
  const format = options.format === "json" ? jsonLinesFormatter : textFormatter;
  const file = options.folder === undefined ? undefined : openLog(options.folder);
  const write = (record: LogRecord) => {
    const line = format(record);
    process.stderr.write(line);
    if (file === undefined) return;
    try {
      writeSync(file, line);
    } catch {
      // A full disk must not end the service; the stream has the line.
    }
  };
  configureSync({
    reset: true,
    sinks: { all: write },
    loggers: [
      { category: "canopy", lowestLevel: options.level, sinks: ["all"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["all"] },
    ],
  });
}

function openLog(folder: string): number {
  const path = join(folder, "canopy.log");
  try {
    mkdirSync(folder, { recursive: true });
    return openSync(path, "a");
  } catch (error) {
    throw new CanopyError(`Cannot write ${path}: ${messageOf(error)}`, {
      code: "log_unwritable",
      status: 500,
    });
  }
}
