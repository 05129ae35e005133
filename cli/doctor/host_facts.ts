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
