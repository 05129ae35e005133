import { SGLANG_RENDEZVOUS_PORT } from "../commands/sglang.ts";
import { vllmNodeOptions } from "../commands/vllm.ts";
import type { EmitInput } from "./emitted.ts";
import { engineContainer, podSpecOf } from "./kubernetes_pod.ts";
import { hintsOf, labelsOf, type Workload } from "./kubernetes_workload.ts";
import { isAtLeast, NEWEST } from "../host/versions.ts";

/**
 * An engine that spans hosts: its leader serves, its workers hold the other ranks. The controller of LeaderWorkerSet
 * tells every pod the leader's address, and replaces all of them when one dies.
 */
export function leaderWorkerSet(workload: Workload, input: EmitInput): Record<string, unknown> {
  const [engine] = workload.engines;
  const labels = labelsOf(workload);
  const annotations = hintsOf(workload);
  const version = input.config.models[engine.modelKey]?.launch?.version ?? NEWEST.vllm;
  const rank = (value: string) =>
    engine.family === "vllm" ? vllmNodeOptions(version, engine.nodes, value, "$(LWS_LEADER_ADDRESS)") : [
      ...["--nnodes", String(engine.nodes), "--node-rank", value],
      ...["--dist-init-addr", `$(LWS_LEADER_ADDRESS):${SGLANG_RENDEZVOUS_PORT}`],
    ];
  const headless = engine.family === "vllm" && isAtLeast(version, "0.12") ? ["--headless"] : [];
  const leader = engineContainer(workload, input, rank("0"));
  // Only the leader answers requests, so only it is asked whether it does.
  const { startupProbe: _s, readinessProbe: _r, livenessProbe: _l, ports: _p, ...worker } = engineContainer(
    workload,
    input,
    [...rank("$(LWS_WORKER_INDEX)"), ...headless],
  );
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
          spec: podSpecOf(engine, input, worker),
        },
      },
    },
  };
}
