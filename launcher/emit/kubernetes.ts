import { stringify } from "yaml";
import { CanopyError } from "../../base/errors.ts";
import { fnv1a } from "../../base/random.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { DOCKERFILE } from "./container_file.ts";
import {
  type EmitInput,
  type EmittedFile,
  keyVariables,
  processesOf,
  routerConfig,
  routerConfigText,
  routerPort,
  routerStopSeconds,
  startsAfter,
} from "./emitted.ts";
import { type Manifest, type Workload, workloadManifests } from "./kubernetes_workload.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";

/**
 * Manifests for Kubernetes: a StatefulSet and a headless service for each model and role (prefill and decode apart),
 * so that each pod has a name of its own for the router; a LeaderWorkerSet where an engine spans hosts; one cache of
 * weights; the router with readiness and drain.
 * Throws 400 `shared_gpu` when engines of the plan share a GPU: Kubernetes gives whole GPUs.
 */
export function emitKubernetes(input: EmitInput): EmittedFile[] {
  const engines = processesOf(input.plan);
  for (const engine of engines) {
    const [other] = startsAfter(engine, input.plan);
    if (other === undefined) continue;
    const { vendor } = engine.gpus[0] ?? { vendor: "nvidia" };
    throw new CanopyError(
      `Cannot write files for Kubernetes: ${other.name} and ${engine.name} share a GPU, and Kubernetes gives whole ` +
        `${vendor === "amd" ? "AMD" : "NVIDIA"} GPUs to pods: plan with more of them, such as ` +
        `--gpus ${engines.reduce((sum, one) => sum + Math.max(1, one.gpus.length), 0)}xH200`,
      { code: "shared_gpu", status: 400 },
    );
  }
  const workloads = workloadsOf(engines);
  const placeOf = new Map(
    workloads.flatMap((workload) =>
      workload.engines.map((engine, at) => [engine, { workload, at }] as const)
    ),
  );
  const config = routerConfig(
    input,
    (engine) => {
      const process = input.plan.engines.find((other) => other.name === engine.within) ?? engine;
      const place = placeOf.get(process);
      if (place === undefined) throw new Error(`No workload holds ${engine.name}`);
      const { workload, at } = place;
      // Pods of a workload are equal; only simulated halves have a port beside that of their process.
      const port = process === engine ? workload.engines[0].port : engine.port;
      return `http://${workload.name}-${process.nodes > 1 ? 0 : at}.${workload.name}:${port}`;
    },
    (engine) => placeOf.get(engine)?.workload.engines[0].bootstrapPort ?? engine.bootstrapPort,
  );
  const manifests = [
    modelCache(engines),
    ...workloads.flatMap((workload) => workloadManifests(workload, input)),
    ...discoveryManifests(),
    ...routerManifests(config, input.canopyImage),
  ];
  const head = `# Engines and router: kubectl apply -f canopy.yaml
# Gated models: kubectl create secret generic hf-token --from-literal=token=hf_...
${keysComment(config)}`;
  const text = head +
    manifests.map((manifest) => stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false })).join(
      "---\n",
    );
  return [{ path: "canopy.yaml", text }, DOCKERFILE];
}

/** The secret with keys that the configuration takes from variables. */
const KEYS_SECRET = "canopy-keys";

/** How the secret is made; nothing where no key comes from a variable. */
function keysComment(config: Config): string {
  const literals = keyVariables(config).map((name) => ` --from-literal=${name}=...`);
  return literals.length === 0
    ? ""
    : `# Keys of the router: kubectl create secret generic ${KEYS_SECRET}${literals.join("")}\n`;
}

/** Engines that differ in nothing but their addresses, together. */
function workloadsOf(engines: readonly PlannedEngine[]): Workload[] {
  const groups = new Map<string, [PlannedEngine, ...PlannedEngine[]]>();
  for (const engine of engines) {
    // An engine that spans hosts is a workload of its own.
    const key = engine.nodes > 1 ? engine.name : `${engine.modelKey} ${engine.role}`;
    const same = groups.get(key);
    if (same === undefined) groups.set(key, [engine]);
    else same.push(engine);
  }
  const taken = new Set<string>();
  return [...groups.values()].map((group): Workload => {
    // Names of services begin with a letter, and one of them is the router's.
    const plain = shortened(
      `engine-${group.length === 1 ? group[0].name : group[0].name.replace(/-\d+$/, "")}`,
    );
    let name = plain;
    for (let copy = 2; taken.has(name); copy++) name = `${plain}-${copy}`;
    taken.add(name);
    return { name, engines: group };
  });
}

/** Kubernetes puts numbers and hashes behind a workload's name in labels of its pods, which have 63 characters at most. */
const MAX_NAME_LENGTH = 48;

function shortened(name: string): string {
  if (name.length <= MAX_NAME_LENGTH) return name;
  const hash = fnv1a(name).toString(16).padStart(8, "0");
  return `${name.slice(0, MAX_NAME_LENGTH - hash.length - 1).replace(/-+$/, "")}-${hash}`;
}

/** One volume with the Hub's cache, for all pods on all nodes. */
function modelCache(engines: readonly PlannedEngine[]): Manifest {
  const sizes = new Map(
    engines.map((engine) => [engine.modelKey, engine.shape?.weightBytes ?? 20 * 2 ** 30]),
  );
  const gib = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0) / 2 ** 30;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "canopy-models", labels: { "app.kubernetes.io/part-of": "canopy" } },
    spec: {
      accessModes: ["ReadWriteMany"],
      resources: { requests: { storage: `${Math.ceil(gib * 1.2) + 10}Gi` } },
    },
  };
}

/** The router's account, which may look at pods: for `--discover kubernetes` and `--service-discovery`. */
function discoveryManifests(): Manifest[] {
  const metadata = {
    name: "canopy",
    labels: { "app.kubernetes.io/name": "canopy", "app.kubernetes.io/part-of": "canopy" },
  };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "Role",
      metadata,
      rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] }],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "canopy" },
      subjects: [{ kind: "ServiceAccount", name: "canopy" }],
    },
  ];
}

function routerManifests(config: Config, image: string): Manifest[] {
  const port = routerPort(config);
  const labels = { "app.kubernetes.io/name": "canopy", "app.kubernetes.io/part-of": "canopy" };
  const env = keyVariables(config).map((name) => ({
    name,
    valueFrom: { secretKeyRef: { name: KEYS_SECRET, key: name, optional: true } },
  }));
  const scheme = config.server.tls === undefined ? {} : { scheme: "HTTPS" };
  const probe = (path: string) => ({
    httpGet: { path, port: "http", ...scheme },
    periodSeconds: 5,
    timeoutSeconds: 5,
  });
  return [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "canopy", labels },
      data: { "canopy.jsonc": routerConfigText(config, "0.0.0.0") },
    },
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "canopy", labels },
      spec: {
        // One: runs, warmed places and records are its own.
        replicas: 1,
        selector: { matchLabels: { "app.kubernetes.io/name": "canopy" } },
        template: {
          metadata: {
            labels,
            annotations: {
              "prometheus.io/scrape": "true",
              "prometheus.io/port": String(port),
              "prometheus.io/path": "/metrics",
            },
          },
          spec: {
            serviceAccountName: "canopy",
            // SIGTERM lets running requests end; the pause before it lets the service forget this pod.
            terminationGracePeriodSeconds: routerStopSeconds(config) + 10,
            containers: [{
              name: "canopy",
              image,
              args: ["serve", "/etc/canopy/canopy.jsonc", "--host", "0.0.0.0", "--port", String(port)],
              env: env.length === 0 ? undefined : env,
              ports: [{ name: "http", containerPort: port }],
              readinessProbe: probe("/readiness"),
              livenessProbe: { ...probe("/liveness"), failureThreshold: 6 },
              // By Kubernetes itself (1.30): the image has no program that waits.
              lifecycle: { preStop: { sleep: { seconds: 5 } } },
              resources: { requests: { cpu: "4", memory: "4Gi" }, limits: { memory: "8Gi" } },
              volumeMounts: [{ name: "config", mountPath: "/etc/canopy", readOnly: true }],
            }],
            volumes: [{ name: "config", configMap: { name: "canopy" } }],
          },
        },
      },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "canopy", labels },
      spec: {
        selector: { "app.kubernetes.io/name": "canopy" },
        ports: [{ name: "http", port: 80, targetPort: "http" }],
      },
    },
  ];
}
