import { execFile } from "node:child_process";
import { arch, availableParallelism, freemem, platform, totalmem } from "node:os";
import process from "node:process";

/** The runtime and the machine in one line. */
export function hostFacts(): string {
  const { bun, deno, v8 } = process.versions;
  const runtime = bun !== undefined
    ? `Bun ${bun}`
    : deno !== undefined
    ? `Deno ${deno} (V8 ${v8})`
    : `Node ${process.version}`;
  const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1);
  return `${runtime} on ${platform()} ${arch()}, ${availableParallelism()} cores, ` +
    `${gib(freemem())} of ${gib(totalmem())} GiB memory free`;
}

/** The GPUs that the vendor's tool lists; undefined when there is no such tool or it fails. */
export async function listGpus(signal: AbortSignal): Promise<{ tool: string; gpus: string[] } | undefined> {
  const tools: [string, string[]][] = [
    ["nvidia-smi", ["--query-gpu=name,memory.total", "--format=csv,noheader"]],
    ["rocm-smi", ["--showproductname", "--csv"]],
  ];
  for (const [tool, args] of tools) {
    const output = await outputOf(tool, args, signal);
    if (output !== undefined) {
      return {
        tool,
        gpus: output.split("\n").map((line) => line.trim()).filter(Boolean),
      };
    }
  }
  return undefined;
}

function outputOf(command: string, args: string[], signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, args, { signal, timeout: 10_000, encoding: "utf8" }, (error, stdout) => {
      resolve(error === null ? stdout : undefined);
    });
  });
}
