import { CACHE_IN_CONTAINER } from "../commands/docker.ts";
import { containerEnv, type EmitInput, imageOf, nodeOptions, weightsFolder, withOptions } from "./emitted.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";

/** An object of Kubernetes, or a part of one; what is undefined is not written. */
export type Manifest = Record<string, unknown>;

/** Engines of one model and role: pods of one workload. */
export interface Workload {
  readonly name: string;
  readonly engines: readonly [PlannedEngine, ...PlannedEngine[]];
}

/** Startup probes, ten seconds apart: an hour for weights to be fetched and loaded, and graphs to be captured. */
const STARTUP_CHECKS = 360;

/** The manifests of a workload: a StatefulSet with its headless service, or a LeaderWorkerSet for several hosts. */
export function workloadManifests(workload: Workload, input: EmitInput): Manifest[] {
  const [first] = workload.engines;
  if (first.nodes > 1) return [leaderWorkerSet(workload, input)];
  const labels = labelsOf(workload);
  const annotations = hintsOf(workload);
  const selected = { "app.kubernetes.io/name": workload.name };
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: workload.name, labels },
      spec: {
        // Headless: each pod keeps a name, and no proxy chooses among them.
        clusterIP: "None",
        // Halves of a pair find each other before they are ready.
        publishNotReadyAddresses: true,
        selector: selected,
        ports: portsOf(first).map(({ name, port }) => ({ name, port })),
      },
    },
    {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: { name: workload.name, labels, annotations },
      spec: {
        serviceName: workload.name,
        replicas: workload.engines.length,
        podManagementPolicy: "Parallel",
        selector: { matchLabels: selected },
        template: {
          metadata: { labels, annotations },
          spec: podSpecOf(first, input, engineContainer(first, input, [])),
        },
      },
    },
  ];
}

/**
 * An engine that spans hosts: its leader serves, its workers hold the other ranks. The controller of LeaderWorkerSet
 * tells every pod the leader's address, and replaces all of them when one dies.
 */
function leaderWorkerSet(workload: Workload, input: EmitInput): Manifest {
  const [engine] = workload.engines;
  const labels = labelsOf(workload);
  const annotations = hintsOf(workload);
  const options = (rank: string) => nodeOptions(engine, { rank, leader: "$(LWS_LEADER_ADDRESS)" });
  const leader = engineContainer(engine, input, options("0"));
  const headless = engine.family === "vllm" ? ["--headless"] : [];
  const worker = engineContainer(engine, input, [...options("$(LWS_WORKER_INDEX)"), ...headless]);
  // Only the leader answers requests, so only it is asked whether it does.
  const { startupProbe: _s, readinessProbe: _r, livenessProbe: _l, ports: _p, ...silent } = worker;
  return {
    apiVersion: "leaderworkerset.x-k8s.io/v1",
    kind: "LeaderWorkerSet",
    metadata: { name: workload.name, labels, annotations },
    spec: {
      replicas: 1,
      leaderWorkerTemplate: {
        size: engine.nodes,
        restartPolicy: "RecreateGroupOnPodRestart",
        leaderTemplate: { metadata: { labels, annotations }, spec: podSpecOf(engine, input, leader) },
        workerTemplate: {
          metadata: { labels: { ...labels, "canopy.dev/role": "worker" } },
          spec: podSpecOf(engine, input, silent),
        },
      },
    },
  };
}

/** Labels by which pods are found, by services and by `--discover kubernetes`. */
function labelsOf({ name, engines: [first] }: Workload): Record<string, string> {
  return {
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/part-of": "canopy",
    // Begins and ends with a letter or a digit.
    "canopy.dev/model": first.modelKey.replace(/[^\w.-]+/g, "-").slice(0, 63).replace(/^[\W_]+|[\W_]+$/g, ""),
    "canopy.dev/role": first.role,
  };
}

/** Annotations for Prometheus and for a scaler; replicas beyond those of the router's configuration need discovery. */
function hintsOf({ engines: [first] }: Workload): Record<string, string | undefined> {
  const metric = first.family === "vllm"
    ? "vllm:num_requests_waiting"
    : first.role === "prefill"
    ? "sglang:num_prefill_bootstrap_queue_reqs"
    : first.role === "decode"
    ? "sglang:num_decode_prealloc_queue_reqs"
    : "sglang:num_queue_reqs";
  return {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": String(first.port),
    "prometheus.io/path": "/metrics",
    "canopy.dev/scale-on": `${metric} > 8 for 60s`,
    "canopy.dev/bootstrap-port": first.bootstrapPort?.toString(),
    // By this name SGLang's routers find it.
    "sglang.ai/bootstrap-port": first.bootstrapPort?.toString(),
  };
}

function portsOf({ port, bootstrapPort }: PlannedEngine): { name: string; port: number }[] {
  const http = { name: "http", port };
  return bootstrapPort === undefined ? [http] : [http, { name: "bootstrap", port: bootstrapPort }];
}

/** The pod of an engine around its container. */
function podSpecOf(engine: PlannedEngine, input: EmitInput, container: Manifest): Manifest {
  const folder = weightsFolder(engine, input.config);
  return {
    terminationGracePeriodSeconds: 60,
    tolerations: engine.gpus.length === 0
      ? undefined
      : [{ key: gpuResource(engine), operator: "Exists", effect: "NoSchedule" }],
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
function engineContainer(engine: PlannedEngine, input: EmitInput, more: readonly string[]): Manifest {
  const simulated = engine.family === "sim";
  const folder = weightsFolder(engine, input.config);
  const [program = "", ...args] = withOptions(engine.bare.argv, { "--host": "0.0.0.0" });
  const probe = simulated
    ? { tcpSocket: { port: "http" } }
    : { httpGet: { path: "/health", port: "http" }, timeoutSeconds: 25 };
  const gpus = { [gpuResource(engine)]: String(engine.gpus.length) };
  return {
    name: "engine",
    image: imageOf(engine, input),
    command: simulated ? undefined : [escaped(program)],
    args: [...(simulated ? args.slice(args.indexOf("sim")) : args).map(escaped), ...more],
    env: simulated ? [] : envOf(engine),
    ports: portsOf(engine).map(({ name, port }) => ({ name, containerPort: port })),
    startupProbe: { ...probe, periodSeconds: 10, failureThreshold: STARTUP_CHECKS },
    readinessProbe: { ...probe, periodSeconds: 10, failureThreshold: 3 },
    livenessProbe: { ...probe, periodSeconds: 30, failureThreshold: 5 },
    resources: engine.gpus.length === 0 ? undefined : { limits: gpus, requests: gpus },
    volumeMounts: [
      { name: "models", mountPath: CACHE_IN_CONTAINER },
      { name: "shm", mountPath: "/dev/shm" },
      ...(folder === undefined ? [] : [{ name: "weights", mountPath: folder, readOnly: true }]),
    ],
  };
}

/** A reference to the pod's own address. */
const POD_IP = "$(POD_IP)";

function envOf(engine: PlannedEngine): Manifest[] {
  const address = { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } };
  const token = { secretKeyRef: { name: "hf-token", key: "token", optional: true } };
  return [
    ...(engine.role === "whole" ? [] : [address]),
    ...Object.entries(containerEnv(engine, POD_IP)).map(([name, value]) => ({
      name,
      value: value === POD_IP ? value : escaped(value),
    })),
    { name: "HF_TOKEN", valueFrom: token },
  ];
}

/** Name under which the vendor's device plugin offers its GPUs. */
function gpuResource(engine: PlannedEngine): string {
  return engine.gpus[0]?.vendor === "amd" ? "amd.com/gpu" : "nvidia.com/gpu";
}

/** Kubernetes replaces `$(NAME)` in commands, arguments and variables. */
function escaped(text: string): string {
  return text.replaceAll("$(", "$$(");
}
