import { deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import { checkLoaded, loadConfig, type LoadedConfig } from "../../cfgs/load/load.ts";
import { ConfigError, configProblemText } from "../../cfgs/load/problems.ts";
import { checkLaunch } from "./check_launch.ts";
import { checkLive } from "./check_live.ts";
import { checkTokenizers } from "./check_tokenizers.ts";
import { checkWeights } from "./check_weights.ts";
import { checkWorkers, type DoctorFinding } from "./check_workers.ts";
import { hostFacts } from "./host_facts.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { DEFAULT_CONFIG_FILES, findConfigFile } from "../kit/config_file.ts";
import { isCanopy } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { portProblem } from "../kit/ports.ts";
import { addressOf } from "../kit/server_place.ts";
import { colorsOf } from "../kit/terminal.ts";
import { version } from "../kit/version.ts";
import { findGpus } from "../../launcher/host/find_gpus.ts";
import { runTool } from "../../launcher/host/run_tool.ts";
import { gib } from "../../launcher/model/memory.ts";

/** Longest wait for whoever has the port to say what it is, in ms. */
const ASK_MS = 2_000;

/** `canopy doctor`: what this host can run, and what stands in the way. */
export const doctorCommand = defineCommand({
  name: "doctor",
  summary: "Say what this host can run: runtime, GPUs, configuration, workers, ports",
  arguments: "[FILE]",
  maxArguments: 1,
  options: {
    json: { type: "flag", help: "Print the findings as JSON" },
    live: { type: "flag", help: "Ask the running router, too: how much of its prompts was prefilled ahead" },
    port: {
      type: "number",
      value: "PORT",
      min: 1,
      max: 65535,
      help: "With --live: the router's port; the configuration's by default",
    },
  },
  details:
    `The exit code is 1 when something would not work. Without FILE the configuration in this folder is used.

Examples:
  canopy doctor
  canopy doctor canopy.jsonc --live`,
  run: async (values, [file], io) => {
    if (values.port !== undefined && !values.live) {
      throw new UsageError("Option --port is that of a running router: give --live, too");
    }
    const findings: DoctorFinding[] = [{
      level: "ok",
      subject: "runtime",
      text: `Canopy ${version}, ${hostFacts()}`,
    }];
    findings.push(await checkGpus(io));
    const { config, found } = checkConfiguration(file ?? findConfigFile(io), io);
    findings.push(...found);
    const server = config?.config.server ?? { host: "127.0.0.1", port: 8000 };
    // A router that runs has its port.
    if (!values.live) findings.push(await checkPort(server, io));
    findings.push(...await checkLaunch(config?.config, io));
    if (config !== undefined) {
      const live = values.live ? await checkLive(config.config, values.port, io) : undefined;
      findings.push(
        ...await checkWorkers(config.config, io),
        ...await checkWeights(config.config, io),
        ...await checkTokenizers(config.config, live, io),
        ...live?.findings ?? [],
      );
    } else if (values.live) {
      const text = "not asked: its address and key are in the configuration";
      findings.push({ level: "warning", subject: "router", text });
    }
    io.stop.throwIfAborted();
    io.out.write(values.json ? `${JSON.stringify({ findings }, null, 2)}\n` : reportText(findings, io));
    return findings.some((finding) => finding.level === "problem") ? 1 : 0;
  },
});

async function checkGpus(io: Io): Promise<DoctorFinding> {
  const subject = "GPU";
  try {
    const { gpus, source } = await findGpus({ run: runTool, env: io.env, signal: io.stop });
    const kinds = Map.groupBy(gpus, (gpu) => `${gpu.name}, ${gib(gpu.totalMiB)} GiB`);
    const text = [...kinds].map(([kind, { length }]) => length === 1 ? kind : `${length} × ${kind}`).join(
      "; ",
    );
    return { level: "ok", subject, text: `${text} (${source})` };
  } catch (error) {
    if (!CanopyError.is(error)) throw error;
    const text = error.code === "no_driver"
      ? error.message.replace("Cannot plan: ", "")
      : 'no nvidia-smi, rocm-smi or amd-smi lists one: use engines on other hosts, or try "canopy demo"';
    return { level: error.code === "no_driver" ? "problem" : "warning", subject, text };
  }
}

function checkConfiguration(
  path: string | undefined,
  io: Io,
): { config: LoadedConfig | undefined; found: DoctorFinding[] } {
  const subject = "configuration";
  if (path === undefined) {
    const text = `none of ${
      DEFAULT_CONFIG_FILES.join(", ")
    } is in this folder: let "canopy init" write one, or name a file or preset`;
    return { config: undefined, found: [{ level: "warning", subject, text }] };
  }
  try {
    const config = loadConfig({ path, env: io.env });
    const problems = checkLoaded(config);
    const found = problems.map((problem): DoctorFinding => ({
      level: problem.severity === "error" ? "problem" : "warning",
      subject,
      text: configProblemText(problem),
    }));
    if (found.every((finding) => finding.level !== "problem")) {
      found.unshift({ level: "ok", subject, text: `${config.source} can be served` });
    }
    return { config, found };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const found = error.problems.map((problem): DoctorFinding => ({
      level: "problem",
      subject,
      text: configProblemText(problem),
    }));
    return { config: undefined, found };
  }
}

async function checkPort(server: Parameters<typeof addressOf>[0], io: Io): Promise<DoctorFinding> {
  const { host, port } = server;
  const subject = `port ${port}`;
  const problem = port === 0 ? undefined : await portProblem(host, port);
  if (problem === undefined) return { level: "ok", subject, text: `free on ${host}` };
  const url = addressOf(server);
  const { signal, release } = deadlineSignal(io.clock, ASK_MS, new Error("no answer"), io.stop);
  const own = await isCanopy(io.transport, url, signal);
  release();
  if (!own) return { level: "warning", subject, text: problem };
  return { level: "ok", subject, text: `a Canopy is serving on ${url}: another one needs --port` };
}

function reportText(findings: readonly DoctorFinding[], io: Io): string {
  const colors = colorsOf(io.out, io.env);
  const marks = { ok: colors.green("✓"), warning: colors.yellow("!"), problem: colors.red("✗") };
  const lines = findings.map(({ level, subject, text }) =>
    `${marks[level]} ${colors.bold(subject)}: ${text}`
  );
  const problems = findings.filter((finding) => finding.level === "problem").length;
  lines.push(
    problems === 0 ? "Nothing stands in the way." : `${problems} ${problems === 1 ? "problem" : "problems"}.`,
  );
  return lines.map((line) => `${line}\n`).join("");
}
