import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Member } from "./membership.ts";

/** Rules by which a pod is a worker: by its labels, those of `canopy plan --emit kubernetes`. */
export interface PodRules {
  /** Keys of `models`, of which a single one needs no label; undefined where the servers say which model they have. */
  readonly models: readonly string[] | undefined;
  /** Half of the work that all these pods do; undefined: each one's label says it. */
  readonly role?: "whole" | "prefill" | "decode" | undefined;
  /** Port of all pods; undefined: each one's first container port. */
  readonly port: number | undefined;
}

const MODEL_LABEL = "canopy.dev/model";
const ROLE_LABEL = "canopy.dev/role";
/** The second name is that of SGLang's gateways. */
const BOOTSTRAP_ANNOTATIONS = ["canopy.dev/bootstrap-port", "sglang.ai/bootstrap-port"];

/** The member that a pod is; undefined for pods that do not serve (yet). */
export function memberOf(pod: JsonObject, rules: PodRules): Member | undefined {
  const { metadata, spec, status } = objectsOf(pod);
  const labels = objectOr(metadata.labels);
  const address = status.podIP;
  const port = rules.port ?? containerPort(spec);
  const model = rules.models === undefined ? undefined : modelOf(labels[MODEL_LABEL], rules.models);
  const role = rules.role ?? labels[ROLE_LABEL] ?? "whole";
  if (typeof address !== "string" || address === "" || port === undefined) return undefined;
  if (model === undefined && rules.models !== undefined) return undefined;
  if (role !== "whole" && role !== "regular" && role !== "prefill" && role !== "decode") return undefined;
  const leaving = metadata.deletionTimestamp !== undefined && metadata.deletionTimestamp !== null;
  if (!leaving && !isReady(status)) return undefined;
  if (status.phase === "Failed" || status.phase === "Succeeded") return undefined;
  const bootstrapPort = role === "prefill" ? bootstrapOf(objectOr(metadata.annotations)) : undefined;
  return {
    model,
    worker: {
      url: `http://${address.includes(":") ? `[${address}]` : address}:${port}`,
      role: role === "prefill" || role === "decode" ? role : undefined,
      bootstrapPort,
    },
    leaving,
  };
}

/** A pod's namespace and name. */
export function nameOf(pod: JsonObject): string {
  const { namespace = "", name = "" } = objectsOf(pod).metadata;
  return `${namespace}/${name}`;
}

function objectsOf(pod: JsonObject): Record<"metadata" | "spec" | "status", JsonObject> {
  return { metadata: objectOr(pod.metadata), spec: objectOr(pod.spec), status: objectOr(pod.status) };
}

function objectOr(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Labels may not have all the characters that keys of `models` may. */
function modelOf(label: Json | undefined, models: readonly string[]): string | undefined {
  if (label === undefined) return models.length === 1 ? models[0] : undefined;
  return models.find((key) => key === label || key.replace(/[^\w.-]+/g, "-").slice(0, 63) === label);
}

function isReady(status: JsonObject): boolean {
  const conditions = Array.isArray(status.conditions) ? status.conditions : [];
  return conditions.some((one) => isJsonObject(one) && one.type === "Ready" && one.status === "True");
}

function containerPort(spec: JsonObject): number | undefined {
  const [container] = Array.isArray(spec.containers) ? spec.containers : [];
  const ports = isJsonObject(container) && Array.isArray(container.ports) ? container.ports : [];
  const named = ports.find((one) => isJsonObject(one) && one.name === "http") ?? ports[0];
  return isJsonObject(named) && typeof named.containerPort === "number" ? named.containerPort : undefined;
}

function bootstrapOf(annotations: JsonObject): number | undefined {
  for (const name of BOOTSTRAP_ANNOTATIONS) {
    const port = Number(annotations[name]);
    if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  }
  return undefined;
}
