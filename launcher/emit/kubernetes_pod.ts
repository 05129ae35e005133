import { CACHE_IN_CONTAINER } from "../commands/docker.ts";
import { containerEnv, type EmitInput, imageOf, weightsFolder, withOptions } from "./emitted.ts";
import type { Workload } from "./kubernetes_workload.ts";
import type { PlannedEngine } from "../plan/plan_types.ts";

/** Time for weights to be fetched and loaded, and graphs to be captured: one hour. */
const STARTUP_CHECKS = 360;

/** The pod of an engine around its container. */
export function podSpecOf(
  engine: PlannedEngine,
  input: EmitInput,
  container: Record<string, unknown>,
): Record<string, unknown> {
  const folder = weightsFolder(engine, input.config);
  return {
    terminationGracePeriodSeconds: 60,
    ...(engine.gpus.length === 0 ? {} : {
      tolerations: [{ key: gpuResource(engine), operator: "Exists", effect: "NoSchedule" }],
    }),
    containers: [container],
    volumes: [
      { name: "models", persistentVolumeClaim: { claimName: "canopy-models" } },
      // NCCL and the workers of an engine talk through shared memory.
      { name: "shm", emptyDir: { medium: "Memory", sizeLimit: "16Gi" } },
      ...(folder === undefined ? [] : [{ name: "weights", hostPath: { path: folder, type: "Directory" } }]),
    ],
  };
}

/** The container of an engine; `more` are arguments that only this pod of it gets. */
export function engineContainer(
  { engines: [engine] }: Workload,
  input: EmitInput,
  more: readonly string[],
): Record<string, unknown> {
  const simulated = engine.family === "sim";
  const folder = weightsFolder(engine, input.config);
  const [program, ...args] = withOptions(engine.bare.argv, { "--host": "0.0.0.0" });
  const probe = simulated
    ? { tcpSocket: { port: "http" } }
    : { httpGet: { path: "/health", port: "http" }, timeoutSeconds: 25 };
  const env = [
    ...(engine.role === "whole" ? [] : [{
      name: "POD_IP",
      valueFrom: { fieldRef: { fieldPath: "status.podIP" } },
    }]),
    ...Object.entries(containerEnv(engine, "$(POD_IP)")).map(([name, value]) => ({ name, value })),
    {
      name: "HF_TOKEN",
      valueFrom: { secretKeyRef: { name: "hf-token", key: "token", optional: true } },
    },
  ];
  const count = String(engine.gpus.length);
  return {
    name: "engine",
    image: imageOf(engine, input),
    ...(simulated ? {} : { command: [program] }),
    args: [...(simulated ? args.slice(args.indexOf("sim")) : args).map(escaped), ...more],
    env: simulated ? [] : env,
    ports: [
      { name: "http", containerPort: engine.port },
      ...(engine.bootstrapPort === undefined
        ? []
        : [{ name: "bootstrap", containerPort: engine.bootstrapPort }]),
    ],
    startupProbe: { ...probe, periodSeconds: 10, failureThreshold: STARTUP_CHECKS },
    readinessProbe: { ...probe, periodSeconds: 10, failureThreshold: 3 },
    livenessProbe: { ...probe, periodSeconds: 30, failureThreshold: 5 },
    ...(engine.gpus.length === 0 ? {} : {
      resources: { limits: { [gpuResource(engine)]: count }, requests: { [gpuResource(engine)]: count } },
    }),
    volumeMounts: [
      { name: "models", mountPath: CACHE_IN_CONTAINER },
      { name: "shm", mountPath: "/dev/shm" },
      ...(folder === undefined ? [] : [{ name: "weights", mountPath: folder, readOnly: true }]),
    ],
  };
}

/** Name under which the vendor's device plugin offers its GPUs. */
function gpuResource(engine: PlannedEngine): string {
  return engine.gpus[0]?.vendor === "amd" ? "amd.com/gpu" : "nvidia.com/gpu";
}

/** Kubernetes replaces `$(NAME)` in arguments. */
function escaped(text: string): string {
  return text.replaceAll("$(", "$$(");
}
