import type { SandboxSource } from "../../bench/grading/grade_program.ts";
import { openSandbox, type Sandbox } from "../../bench/grading/programs/sandbox.ts";
import type { Io } from "../kit/io.ts";

/** The sandbox of a command, opened when the first program is to be run. */
export function sandboxSource({ env, clock }: Pick<Io, "env" | "clock">): SandboxSource {
  let opened: Promise<Sandbox | string> | undefined;
  return () => opened ??= openSandbox({ env, clock });
}
