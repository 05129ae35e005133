import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { constants, zstdCompressSync } from "node:zlib";
import { packFolder } from "../ml/hub/model_pack.ts";
import type { BinaryPart } from "./release_notes.ts";
import { type ReleaseTarget, targetName } from "./targets.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** The program, and the files that it starts as threads. */
const ENTRIES = [
  "main.ts",
  "scorer/thread/worker.ts",
  "embedded/thread/worker.ts",
  "ml/tokenizers/encoder_worker.ts",
  "router/archive/archive_worker.ts",
  "cli/kit/router/serving_worker.ts",
];
const OPTIONS = [
  "--loader",
  ".zst:file",
  "--loader",
  ".pack:file",
  "--compile",
  // What the program and its threads share is in it once, and what a command does not need is not read.
  "--splitting",
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
];

/** Of zstd: half the time of the next one, and a percent larger. */
const COMPRESSION_LEVEL = 9;

/**
 * Compiles the program for a platform into one file and says what is in it; `target` absent: for this one. Fetches
 * Bun's runtime for another platform from where packages come from. Throws when it cannot be built.
 */
export function buildBinary(outfile: string, target?: ReleaseTarget): BinaryPart[] {
  const platform = target?.platform ?? process.platform;
  const arch = target?.arch ?? process.arch;
  const runtime = `node_modules/onnxruntime-node/bin/napi-v6/${platform}/${arch}`;
  const pack = "dist/models.pack";
  const library = `dist/libonnxruntime-${platform}-${arch}.zst`;
  mkdirSync(dirname(join(ROOT, pack)), { recursive: true });
  writeFileSync(join(ROOT, pack), packFolder(join(ROOT, "models/")));
  writeFileSync(join(ROOT, library), compressed(join(ROOT, runtime, "libonnxruntime.so.1")));
  const forOther = target === undefined ? [] : [`--target=bun-${targetName(target)}`];
  const args = ["build", ...ENTRIES, library, pack, ...OPTIONS, ...forOther, "--outfile", outfile];
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) throw new Error(`bun ${args.join(" ")} ended with ${status}`);
  const sizeOf = (path: string) => statSync(join(ROOT, path)).size;
  const binding = join(runtime, "onnxruntime_binding.node");
  const known = [
    { name: "ONNX Runtime, compressed", bytes: sizeOf(library) + sizeOf(binding) },
    { name: "the laboratory's models", bytes: sizeOf(pack) },
  ];
  const rest = statSync(outfile).size - known.reduce((sum, { bytes }) => sum + bytes, 0);
  return [...known, { name: "Bun's runtime and Canopy's own code", bytes: rest }];
}

function compressed(path: string): Uint8Array {
  const params = { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL };
  return zstdCompressSync(readFileSync(path), { params });
}
