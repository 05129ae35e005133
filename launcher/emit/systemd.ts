import { dirname } from "node:path";
import {
  type EmitInput,
  type EmittedFile,
  hostArgv,
  keyVariables,
  processesOf,
  routerConfig,
  routerConfigText,
  routerStopSeconds,
  startsAfter,
} from "./emitted.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";

const CONFIG_FOLDER = "/etc/canopy";
const KEYS_FILE = `${CONFIG_FOLDER}/router.env`;

/** systemd units: one for each engine, one for the router, and a target that holds them together. */
export function emitSystemd(input: EmitInput): EmittedFile[] {
  const engines = processesOf(input.plan);
  const config = routerConfig(input, (engine) => `http://${engine.host}:${engine.port}`);
  const units = engines.map((engine) => unitOf(engine, input));
  const names = units.map((unit) => unit.path);
  const keys = keyVariables(config);
  const router = section("Unit", [
    "Description=Canopy: a tree of agents as one model",
    `Wants=${names.join(" ")}`,
    `After=network-online.target ${names.join(" ")}`,
    "PartOf=canopy.target",
  ]) + section("Service", [
    "Type=exec",
    ...(keys.length === 0 ? [] : [`EnvironmentFile=-${KEYS_FILE}`]),
    `ExecStart=${word(input.canopyBinary)} serve ${CONFIG_FOLDER}/canopy.jsonc`,
    "Restart=on-failure",
    "RestartSec=2",
    // The first SIGTERM lets running requests end.
    `TimeoutStopSec=${routerStopSeconds(config)}`,
    "NoNewPrivileges=yes",
  ]) + section("Install", ["WantedBy=canopy.target"]);
  const target = section("Unit", [
    "Description=Canopy with its engines",
    `Wants=canopy-router.service ${names.join(" ")}`,
  ]) + section("Install", ["WantedBy=multi-user.target"]);
  const install = `# Copy the units to /etc/systemd/system and canopy.jsonc to ${CONFIG_FOLDER}, then:\n` +
    "# systemctl daemon-reload && systemctl enable --now canopy.target\n" +
    `# HF_TOKEN and the like go into ${CONFIG_FOLDER}/engines.env.\n` +
    (keys.length === 0 ? "" : `# ${keys.join(", ")} go into ${KEYS_FILE}.\n`);
  return [
    ...units,
    { path: "canopy-router.service", text: router },
    { path: "canopy.target", text: install + target },
    { path: "canopy.jsonc", text: routerConfigText(config, undefined) },
  ];
}

function unitOf(engine: PlannedEngine, { plan, canopyBinary }: EmitInput): EmittedFile {
  const before = startsAfter(engine, plan).map((other) => `canopy-${other.name}.service`);
  const argv = hostArgv(engine, canopyBinary);
  const [program = ""] = argv;
  // systemd looks for programs in its own path only; `env` looks in that of the unit.
  const start = program.startsWith("/") ? argv : ["/usr/bin/env", ...argv];
  const text = section("Unit", [
    `Description=Canopy engine ${engine.name}`,
    "Wants=network-online.target",
    `After=${["network-online.target", ...before].join(" ")}`,
    "PartOf=canopy.target",
    "StartLimitIntervalSec=3600",
    "StartLimitBurst=5",
  ]) + section("Service", [
    "Type=exec",
    `EnvironmentFile=-${CONFIG_FOLDER}/engines.env`,
    ...Object.entries(engine.command.env).map(([name, value]) =>
      `Environment=${literal(`${name}=${value}`)}`
    ),
    `ExecStart=${start.map(word).join(" ")}`,
    // Units that come after this one wait until it serves.
    `ExecStartPost=/bin/sh -c ${
      word(`until curl -fsS -o /dev/null http://${engine.host}:${engine.port}/health; do sleep 2; done`)
    }`,
    "TimeoutStartSec=3600",
    "Restart=on-failure",
    "RestartSec=10",
    // Workers are children of the server: all of them end with it.
    "KillMode=mixed",
    "TimeoutStopSec=30",
    ...(program.startsWith("/") && program !== canopyBinary
      ? [`Environment=${literal(`PATH=${dirname(program)}:/usr/local/bin:/usr/bin:/bin`)}`]
      : []),
  ]) + section("Install", ["WantedBy=canopy.target"]);
  return { path: `canopy-${engine.name}.service`, text };
}

function section(name: string, lines: readonly string[]): string {
  return `[${name}]\n${lines.join("\n")}\n\n`;
}

/** A word of a unit's command line, where `$` begins a variable. */
function word(text: string): string {
  return literal(text.replaceAll("$", "$$$$"));
}

/** A word of any other setting: `%` means itself, and a line end is no end of its line. */
function literal(text: string): string {
  const plain = text.replaceAll("%", "%%");
  if (/^[\w@+=:,./%$-]+$/.test(plain)) return plain;
  // deno-lint-ignore no-control-regex
  const escaped = plain.replaceAll(/[\\"]/g, "\\$&").replaceAll(/[\u0000-\u001f\u007f]/g, (control) => {
    const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[control];
    return named ?? `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `"${escaped}"`;
}
