import { chmodSync, copyFileSync, linkSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ReleaseTarget } from "./targets.ts";

/** Name of the package on npm: `npx canopy-moa serve`. */
export const PACKAGE = "canopy-moa";

/** What all packages of a release say of themselves. */
export interface PackageFacts {
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

const SHIM = fileURLToPath(new URL("npm/canopy.mjs", import.meta.url));
const PAGE = `# ${PACKAGE}

A tree of LLM agents served as one OpenAI-compatible model, in front of unpatched SGLang, vLLM or any
OpenAI-compatible server.

    npx ${PACKAGE} init      # finds the servers that run here, writes canopy.jsonc
    npx ${PACKAGE} serve

The program is a binary of its own; this package starts the one of your platform (Linux on x64 or arm64).
`;

/** Writes the folder of a platform's package, which holds its binary and nothing that runs at installation. */
export function stagePlatform(
  folder: string,
  target: ReleaseTarget,
  binary: string,
  facts: PackageFacts,
): void {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, "canopy");
  try {
    linkSync(binary, program);
  } catch {
    copyFileSync(binary, program);
  }
  chmodSync(program, 0o755);
  writeManifest(folder, {
    name: `${PACKAGE}-${target.platform}-${target.arch}`,
    ...facts,
    os: [target.platform],
    cpu: [target.arch],
    libc: ["glibc"],
    files: ["canopy"],
  });
}

/** Writes the folder of the package that users name. Its binaries are optional: npm takes the one that fits. */
export function stageMain(folder: string, targets: readonly ReleaseTarget[], facts: PackageFacts): void {
  mkdirSync(folder, { recursive: true });
  copyFileSync(SHIM, join(folder, "canopy.mjs"));
  chmodSync(join(folder, "canopy.mjs"), 0o755);
  writeFileSync(join(folder, "README.md"), PAGE);
  writeManifest(folder, {
    name: PACKAGE,
    ...facts,
    type: "module",
    bin: { canopy: "canopy.mjs" },
    engines: { node: ">=20" },
    files: ["canopy.mjs"],
    optionalDependencies: Object.fromEntries(
      targets.map(({ platform, arch }) => [`${PACKAGE}-${platform}-${arch}`, facts.version]),
    ),
  });
}

function writeManifest(folder: string, manifest: object): void {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}
