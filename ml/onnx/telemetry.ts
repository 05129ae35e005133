import process from "node:process";
import { foreignFunctions } from "./foreign_functions.ts";

const VARIABLE = "ORT_DISABLE_TELEMETRY";

/**
 * Keeps ONNX Runtime from reporting to Microsoft: since 1.29 it does so on Linux and macOS, with an id that it keeps in
 * the user's cache, unless this variable is set in the process's own environment when the library is loaded. An
 * assignment to `process.env` does not reach that from a Worker (Deno), or at all (Bun).
 */
export async function disableTelemetry(): Promise<void> {
  const deno: { env: { set(name: string, value: string): void } } | undefined = Reflect.get(
    globalThis,
    "Deno",
  );
  if (deno !== undefined) return deno.env.set(VARIABLE, "1");
  process.env[VARIABLE] = "1";
  // On Windows it only writes to the system's own tracing.
  if (Reflect.get(globalThis, "Bun") === undefined || process.platform === "win32") return;
  const { dlopen } = await foreignFunctions();
  const library = process.platform === "darwin" ? "libSystem.B.dylib" : "libc.so.6";
  const { symbols } = dlopen(library, { setenv: { args: ["buffer", "buffer", "i32"], returns: "i32" } });
  const text = (value: string) => new TextEncoder().encode(value + "\0");
  symbols.setenv(text(VARIABLE), text("1"), 1);
}
