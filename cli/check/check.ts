import { summaryText } from "../../cfgs/check/summary.ts";
import { toCanopy } from "../../cfgs/formats/canopy.ts";
import { effectiveText, effectiveValues } from "../../cfgs/load/effective.ts";
import { checkLoaded, loadConfig, type LoadedConfig } from "../../cfgs/load/load.ts";
import { ConfigError, type ConfigProblem, configProblemText } from "../../cfgs/load/problems.ts";
import { presetNames } from "../../cfgs/presets/presets.ts";
import { configJsonSchema } from "../../cfgs/schema/json_schema.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { configFileOf, OVERRIDE_OPTIONS, overridesOf, refuseIdleBasePort } from "../kit/config_file.ts";
import type { Io } from "../kit/io.ts";
import { reportsWarning } from "../kit/router/reports_warning.ts";
import { prefillWarnings } from "../kit/router/prefill_warnings.ts";
import { colorsOf } from "../kit/terminal.ts";

/** `canopy check`: says what is wrong with a configuration, and what it would run. */
export const checkCommand = defineCommand({
  name: "check",
  summary: "Say what is wrong with a configuration, and what it would run",
  arguments: "[FILE]",
  maxArguments: 1,
  options: {
    effective: { type: "flag", help: "Print every value in use and where it came from" },
    to: {
      type: "text",
      value: "FORMAT",
      choices: ["canopy"],
      help: "Print the configuration in this format",
    },
    json: { type: "flag", help: "Print the outcome as JSON" },
    schema: { type: "flag", help: "Print the JSON Schema of configuration files, for editors" },
    ...OVERRIDE_OPTIONS,
  },
  details: `FILE is a Canopy configuration (JSONC or YAML), MoA-vllm's configs.json, or a preset:
${presetNames.join(", ")}.

Examples:
  canopy check
  canopy check moa-9-3-1 --effective
  canopy check configs.json --to canopy > canopy.jsonc`,
  run: async (values, [file], io) => {
    if (values.schema) {
      io.out.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
      return 0;
    }
    if (values.to !== undefined && (values.json || values.effective)) {
      const other = values.json ? "json" : "effective";
      throw new UsageError(`Options --to and --${other} exclude each other: ask for one of them`);
    }
    const path = configFileOf(file, io);
    let loaded: LoadedConfig | undefined;
    let problems: readonly ConfigProblem[];
    try {
      loaded = loadConfig({
        path,
        env: io.env,
        overrides: overridesOf(values),
        basePort: values["base-port"],
      });
      refuseIdleBasePort(values, loaded);
      const { config, source } = loaded;
      const said = [...await prefillWarnings(config, io), reportsWarning(config) ?? []].flat();
      const warnings = said.map((message): ConfigProblem => ({
        severity: "warning",
        file: source,
        line: undefined,
        column: undefined,
        path: message.slice(0, message.search(/[:,]/)),
        value: undefined,
        message,
      }));
      problems = [...checkLoaded(loaded), ...warnings];
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      problems = error.problems;
    }
    const ok = !problems.some((problem) => problem.severity === "error");
    if (values.json) {
      const effective = values.effective && loaded !== undefined ? effectiveValues(loaded) : undefined;
      const outcome = { ok, file: path, format: loaded?.format, problems, effective };
      io.out.write(`${JSON.stringify(outcome, null, 2)}\n`);
    } else if (!ok || loaded === undefined) {
      reportProblems(problems, values.to === undefined && !values.effective ? io.out : io.err, io);
    } else report(loaded, problems, values, io);
    return ok ? 0 : 1;
  },
});

function report(
  loaded: LoadedConfig,
  warnings: readonly ConfigProblem[],
  values: { readonly effective: boolean; readonly to: string | undefined },
  io: Io,
): void {
  // Standard output has nothing but the converted configuration, so that it can be piped into a file.
  if (values.to !== undefined || values.effective) {
    for (const warning of warnings) io.err.write(`${configProblemText(warning)}\n`);
    io.out.write(values.to === undefined ? effectiveText(loaded) : toCanopy(loaded.config));
    return;
  }
  const colors = colorsOf(io.out, io.env);
  const { host, port, workers } = loaded.config.server;
  const format = { canopy: "", "moa-vllm": " (MoA-vllm format)", tree: " (MoA-vllm format with clusters)" };
  io.out.write(`${colors.green(`${loaded.source}${format[loaded.format]}: fine`)}\n`);
  for (const warning of warnings) io.out.write(`${colors.yellow(configProblemText(warning))}\n`);
  io.out.write(summaryText(loaded.config));
  const threads = workers === 1
    ? ""
    : `, ${workers === "auto" ? "a thread for each core" : `${workers} threads`}`;
  io.out.write(`server: ${host}:${port}${threads}\n`);
}

function reportProblems(problems: readonly ConfigProblem[], out: Io["out"], io: Io): void {
  const colors = colorsOf(out, io.env);
  for (const problem of problems) {
    const color = problem.severity === "error" ? colors.red : colors.yellow;
    out.write(`${color(configProblemText(problem))}\n`);
  }
  const errors = problems.filter((problem) => problem.severity === "error").length;
  out.write(`${errors} ${errors === 1 ? "error" : "errors"}\n`);
}
