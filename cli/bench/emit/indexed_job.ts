import { stringify } from "yaml";
import { PROGRAM_IN_CONTAINER } from "../../../launcher/emit/container_file.ts";
import type { EmittedFile } from "../../../launcher/emit/emitted.ts";
import { SHARD_COUNT } from "../eval/shard.ts";
import { type EvalJob, mergeArguments, partArguments, reportArguments } from "./eval_job.ts";

/** Volume that all pods write to, as they see it. */
export const BENCH_FOLDER = "/bench";

/** The experiment as pods see it. */
export const EXPERIMENT_IN_POD = "/etc/canopy/experiment.jsonc";

const EXPERIMENT_FILE = EXPERIMENT_IN_POD.replace(/^.*\//, "");

const NAME = "canopy-bench";

/** User of Canopy's image. */
const USER = 65_532;

/** Times that a part is started again. */
const RETRIES = 3;

/** An experiment and its configurations. */
interface ExperimentTexts {
  readonly experiment: string;
  /** Paths are seen from the experiment. */
  readonly configs: readonly EmittedFile[];
}

/** What pods see of a ConfigMap, whose keys have no slash and no blanks. */
function mountedFiles({ experiment, configs }: ExperimentTexts) {
  return [
    { key: EXPERIMENT_FILE, path: EXPERIMENT_FILE, text: experiment },
    ...configs.map(({ path, text }, at) => ({ key: `config-${at + 1}`, path, text })),
  ];
}

/**
 * Manifests for Kubernetes: an indexed Job with a pod for each part, the experiment in a ConfigMap, a volume for the
 * records, and a second Job that makes one report of them.
 */
export function indexedJob(
  job: EvalJob,
  { image, ...texts }: ExperimentTexts & { readonly image: string },
): EmittedFile[] {
  const labels = { "app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "canopy" };
  const metadata = { name: NAME, labels };
  const mounted = mountedFiles(texts);
  const pod = podOf(mounted.map(({ key, path }) => ({ key, path })));
  const part = {
    ...container("eval", partArguments(job), image),
    env: [...ENVIRONMENT, { name: SHARD_COUNT, value: String(job.shards) }],
  };
  const evaluation = [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata,
      data: Object.fromEntries(mounted.map(({ key, text }) => [key, text])),
    },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata,
      spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "10Gi" } } },
    },
    {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata,
      spec: {
        completionMode: "Indexed",
        completions: job.shards,
        parallelism: Math.min(job.parallel ?? job.shards, job.shards),
        backoffLimitPerIndex: RETRIES,
        template: {
          metadata: { labels },
          spec: { ...pod, restartPolicy: "Never", containers: [part] },
        },
      },
    },
  ];
  const merge = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: `${NAME}-merge`, labels },
    spec: {
      backoffLimit: RETRIES,
      template: {
        metadata: { labels },
        spec: {
          ...pod,
          restartPolicy: "Never",
          initContainers: [container("merge", mergeArguments(job), image)],
          containers: [container("report", reportArguments(job), image)],
        },
      },
    },
  };
  return [
    { path: "eval.yaml", text: HEAD + evaluation.map(yaml).join("---\n") },
    { path: "merge.yaml", text: MERGE_HEAD + yaml(merge) },
  ];
}

const HEAD = `# An evaluation in parts, a pod for each:
#   kubectl apply -f eval.yaml
#   until kubectl get job/${NAME} -o jsonpath='{.status.conditions[*].type}' | grep -qwE 'Complete|Failed'; do sleep 10; done
#   kubectl apply -f merge.yaml
# A part fails where a request had no answer, also after ${RETRIES} more tries, and with it the Job. Merging works all the same.
# Keys: kubectl create secret generic ${NAME} --from-literal=CANOPY_API_KEY=... --from-literal=HF_TOKEN=...
`;

const MERGE_HEAD = `# All parts' records in one file, and the report of it, beside them on the volume.
# It says which parts have no records, and asks only what still has no answer. It fails where that has none again: the
# report is written all the same, and says how many.
`;

/** The Hub's cache is on the volume: pods have no home. */
const ENVIRONMENT = [{ name: "HF_HOME", value: `${BENCH_FOLDER}/huggingface` }];

/** `items`: what a pod sees of the ConfigMap, and where. */
function podOf(items: readonly { readonly key: string; readonly path: string }[]) {
  return {
    securityContext: { runAsNonRoot: true, runAsUser: USER, fsGroup: USER },
    volumes: [
      { name: "experiment", configMap: { name: NAME, items } },
      { name: "bench", persistentVolumeClaim: { claimName: NAME } },
    ],
  };
}

function container(name: string, args: readonly string[], image: string) {
  return {
    name,
    image,
    command: [PROGRAM_IN_CONTAINER],
    // Kubernetes replaces `$(NAME)` in arguments.
    args: args.map((text) => text.replaceAll("$(", "$$(")),
    workingDir: BENCH_FOLDER,
    env: ENVIRONMENT,
    envFrom: [{ secretRef: { name: NAME, optional: true } }],
    resources: { requests: { cpu: "1", memory: "1Gi" }, limits: { memory: "4Gi" } },
    volumeMounts: [
      { name: "experiment", mountPath: EXPERIMENT_IN_POD.replace(/\/[^/]*$/, ""), readOnly: true },
      { name: "bench", mountPath: BENCH_FOLDER },
    ],
  };
}

function yaml(manifest: object): string {
  return stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false });
}
