/**
 * Makes all files of a release in dist/release/VERSION: binaries, npm packages, a container file, a bill of materials,
 * notes and checksums. Nothing is published.
 *
 *     deno task release [--targets linux-x64,linux-arm64]
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import manifest from "../package.json" with { type: "json" };
import { releaseDockerfile } from "../launcher/emit/container_file.ts";
import { buildBinary } from "./build_binary.ts";
import { stageMain, stagePlatform } from "./npm_packages.ts";
import { releaseNotes } from "./release_notes.ts";
import { billOfMaterials, componentsOf } from "./sbom.ts";
import {
  binaryName,
  containedBinary,
  readTargets,
  type ReleaseTarget,
  targetName,
  TARGETS,
} from "./targets.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const print = (line: string) => process.stdout.write(`${line}\n`);

function run(program: string, args: readonly string[], cwd = ROOT): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status === 0) return stdout.trim();
  throw new Error(`${program} ${args.join(" ")} ended with ${status}: ${stderr || error}`);
}

/** CPU time of `canopy version` in ms, the least of five; undefined for a binary of another platform. */
function startCpuMs(binary: string, { platform, arch }: ReleaseTarget): number | undefined {
  if (platform !== process.platform || arch !== process.arch) return undefined;
  const times = Array.from({ length: 5 }, () => {
    const script = `"$1" version >/dev/null && times`;
    // The second line of `times` has the user and system time of children: 0m0.210s 0m0.050s.
    const [, children = ""] = run("sh", ["-c", script, "sh", binary]).split("\n");
    const seconds = [...children.matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, rest]) =>
      Number(minutes) * 60 + Number(rest)
    );
    return seconds.reduce((sum, one) => sum + one, 0) * 1000;
  });
  return Math.min(...times);
}

function licenseOf(name: string): string | undefined {
  const path = join(ROOT, "node_modules", name, "package.json");
  if (!existsSync(path)) return undefined;
  const { license }: { license?: unknown } = JSON.parse(readFileSync(path, "utf8"));
  return typeof license === "string" ? license : undefined;
}

function changes(): { since: string | undefined; changes: string[] } {
  const tags = run("git", ["tag", "--list", "v*", "--merged", "HEAD", "--sort=-creatordate"]);
  const since = tags.split("\n").find((tag) => tag !== "" && tag !== `v${manifest.version}`);
  const range = since === undefined ? "HEAD" : `${since}..HEAD`;
  return { since, changes: run("git", ["log", "--format=%s", range]).split("\n") };
}

function writeChecksums(folder: string): void {
  const files = readdirSync(folder).filter((name) =>
    name !== "SHA256SUMS" && statSync(join(folder, name)).isFile()
  );
  const lines = files.sort().map((name) =>
    `${createHash("sha256").update(readFileSync(join(folder, name))).digest("hex")}  ${name}\n`
  );
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
}

function release(targets: readonly ReleaseTarget[]): void {
  const { version, description, license } = manifest;
  const facts = { version, description, license };
  const folder = join(ROOT, "dist/release", version);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const packages = join(folder, "npm");
  const binaries = targets.map((target) => {
    const name = binaryName(target);
    const path = join(folder, name);
    const parts = buildBinary(path, target);
    stagePlatform(join(packages, targetName(target)), target, path, facts);
    return { name, bytes: statSync(path).size, parts, startCpuMs: startCpuMs(path, target) };
  });
  stageMain(join(packages, "main"), targets, facts);
  for (const one of readdirSync(packages)) {
    run("npm", ["pack", join(packages, one), "--pack-destination", folder, "--loglevel=error"]);
  }
  rmSync(packages, { recursive: true });
  const container = releaseDockerfile(targets.map(containedBinary));
  writeFileSync(join(folder, container.path), container.text);
  copyFileSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  const lock = readFileSync(join(ROOT, "bun.lock"), "utf8");
  const bill = billOfMaterials(componentsOf(lock), {
    version,
    license,
    bun: process.versions["bun"] ?? "",
    licenseOf,
  });
  writeFileSync(join(folder, "sbom.cdx.json"), `${JSON.stringify(bill, null, 2)}\n`);
  const commit = run("git", ["rev-parse", "HEAD"]);
  const notes = releaseNotes({ version, commit, ...changes(), binaries });
  writeFileSync(join(folder, "NOTES.md"), notes);
  writeChecksums(folder);
  print(notes.split("\n## Changes")[0]!);
  for (const name of readdirSync(folder)) print(join("dist/release", version, name));
}

const { values } = parseArgs({
  options: { targets: { type: "string", default: TARGETS.map(targetName).join(",") } },
});
release(readTargets(values.targets));
