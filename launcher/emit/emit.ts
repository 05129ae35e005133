import { emitCompose } from "./compose.ts";
import type { EmitInput, EmittedFile } from "./emitted.ts";
import { emitKubernetes } from "./kubernetes.ts";
import { emitSlurm } from "./slurm.ts";
import { emitSystemd } from "./systemd.ts";

/** Systems that deployment files are written for. */
export const EMIT_TARGETS = ["compose", "systemd", "slurm", "kubernetes"] as const;
export type EmitTarget = (typeof EMIT_TARGETS)[number];

const EMITTERS: Readonly<Record<EmitTarget, (input: EmitInput) => EmittedFile[]>> = {
  compose: emitCompose,
  systemd: emitSystemd,
  slurm: emitSlurm,
  kubernetes: emitKubernetes,
};

/** Deployment files for a plan. Throws when the target cannot do what the plan says. */
export function emit(target: EmitTarget, input: EmitInput): EmittedFile[] {
  return EMITTERS[target](input);
}
