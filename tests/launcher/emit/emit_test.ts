import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import "./no_deprecation.ts";
import { Ajv } from "ajv";
import { validate as validateDeployment } from "kubernetes-models/_schemas/IoK8sApiAppsV1Deployment";
import { validate as validateStatefulSet } from "kubernetes-models/_schemas/IoK8sApiAppsV1StatefulSet";
import { validate as validateConfigMap } from "kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap";
import { validate as validateVolumeClaim } from "kubernetes-models/_schemas/IoK8sApiCoreV1PersistentVolumeClaim";
import { validate as validateService } from "kubernetes-models/_schemas/IoK8sApiCoreV1Service";
import { validate as validateAccount } from "kubernetes-models/_schemas/IoK8sApiCoreV1ServiceAccount";
import { validate as validateRole } from "kubernetes-models/_schemas/IoK8sApiRbacV1Role";
import { validate as validateBinding } from "kubernetes-models/_schemas/IoK8sApiRbacV1RoleBinding";
import { parse, parseAllDocuments } from "yaml";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { loadCheckedConfig } from "../../../cfgs/load/load.ts";
import { emit, type EmitTarget } from "../../../launcher/emit/emit.ts";
import { type HostGpus, noGpus } from "../../../launcher/host/gpu.ts";
import { describedGpus } from "../../../launcher/host/gpus_described.ts";
import type { PlanOptions } from "../../../launcher/plan/plan_options.ts";
import { checkFields } from "./known_fields.ts";
import { configOf, fixture, planned, recorded } from "../planned.ts";

async function filesOf(
  target: EmitTarget,
  preset: string | JsonObject,
  host: HostGpus,
  options: Partial<PlanOptions> = {},
): Promise<Map<string, string>> {
  const config = configOf(preset, { LAB_KEY: "of the lab", FAR_KEY: "far" });
  const isolated = target === "compose" || target === "kubernetes";
  const plan = await planned(config, host, { severalHosts: true, isolated, ...options });
  const input = { config, plan, canopyImage: "canopy:latest", buildsImage: true, canopyBinary: "/bin/true" };
  return new Map(emit(target, input).map((file) => [file.path, file.text]));
}

function fileOf(files: ReadonlyMap<string, string>, name: string): string {
  const text = files.get(name);
  assert.ok(text !== undefined, `${name} of ${[...files.keys()].join(", ")}`);
  return text;
}

/** The router's configuration loads, and its workers are at these addresses. */
function workersIn(text: string, model: string): unknown {
  const { config, warnings } = loadCheckedConfig({ path: "canopy.jsonc", text, env: {} });
  assert.deepEqual(warnings, []);
  assert.equal(config.launch, undefined);
  return config.models[model]?.workers;
}

const has = (program: string) => spawnSync(program, ["--version"]).status === 0;

/** Runs a checker over files in a folder of their own; what it says when it is not content. */
function complaintsOf(files: ReadonlyMap<string, string>, program: string, args: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "canopy-emit-"));
  try {
    for (const [name, text] of files) writeFileSync(join(folder, name), text);
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder, encoding: "utf8" });
    return status === 0 ? "" : `${stdout}${stderr}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const oneVllm: JsonObject = {
  models: { "8b": { model: "Qwen/Qwen3-8B", engine: "vllm-pd", launch: { env: { ODD: 'a $b "c" 100%' } } } },
};
const twoHosts: JsonObject = {
  models: {
    "405b": { model: "meta-llama/Llama-3.1-405B-Instruct", engine: "sglang", launch: { nodes: 2 } },
    "v3": {
      model: "deepseek-ai/DeepSeek-V3",
      engine: "vllm",
      launch: { nodes: 2, gpus: [8, 9, 10, 11, 12, 13, 14, 15] },
    },
  },
};

test("Compose: every project follows the Compose schema", async () => {
  const schema: unknown = JSON.parse(
    fixture("compose_spec.json").replace(/"\$schema":[^,]*,/, "").replace(/"id": "[^"]*",/g, ""),
  );
  assert.ok(isJsonObject(schema));
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema);
  const cases = [
    await filesOf("compose", "launch-6-gpus-pd", recorded("h200x6.txt")),
    await filesOf("compose", "launch-1-gpu", recorded("h200x1.txt")),
    await filesOf("compose", oneVllm, recorded("mi300x8.json")),
    await filesOf("compose", "launch-2-gpus-pd", noGpus, { engine: "sim" }),
  ];
  for (const files of cases) {
    // The schema of 2021 demands that a project has no name; compose has taken it since version 2.3.
    const { name, ...project } = parse(fileOf(files, "compose.yaml"));
    assert.equal(name, "canopy");
    assert.ok(validate(project), JSON.stringify(validate.errors));
  }
});

test("Compose: engines have their GPU, wait for those beside them, and are known by their names", async () => {
  const shared = await filesOf("compose", "launch-1-gpu", recorded("h200x1.txt"));
  const { services } = parse(fileOf(shared, "compose.yaml"));
  assert.deepEqual(Object.keys(services["32b"].depends_on), ["4b", "8b"]);
  assert.deepEqual(services["32b"].deploy.resources.reservations.devices, [
    { driver: "nvidia", device_ids: ["0"], capabilities: ["gpu"] },
  ]);
  assert.equal(services["32b"].image, "lmsysorg/sglang:v0.5.23");
  const pairs = await filesOf("compose", "launch-6-gpus-pd", recorded("h200x6.txt"));
  assert.deepEqual(workersIn(fileOf(pairs, "canopy.jsonc"), "8b"), [{
    prefill: "http://8b-prefill:30002",
    bootstrap_port: 8_999,
    decode: "http://8b-decode:30003",
  }]);
  const odd = parse(fileOf(await filesOf("compose", oneVllm, describedGpus("2xH200")), "compose.yaml"));
  const { environment } = odd.services["8b-decode"];
  assert.equal(environment.ODD, 'a $$b "c" 100%');
  assert.equal(environment.VLLM_NIXL_SIDE_CHANNEL_HOST, "8b-decode");
  assert.equal(environment.CUDA_VISIBLE_DEVICES, undefined);
});

const keyed: JsonObject = {
  server: { limits: { keys: { lab: { api_key_env: "LAB_KEY", requests_per_minute: 60 } } } },
  models: {
    "8b": { model: "Qwen/Qwen3-8B", engine: "vllm" },
    far: { model: "far", engine: "openai", workers: ["https://api.example.com"], api_key_env: "FAR_KEY" },
    near: { model: "near", engine: "openai", workers: ["https://api.example.net"], api_key: "in the open" },
  },
};

test("Keys that the configuration takes from variables reach the router wherever it is run", async () => {
  const host = describedGpus("1xH200");
  const compose = parse(fileOf(await filesOf("compose", keyed, host), "compose.yaml"));
  assert.deepEqual(compose.services.canopy.environment, { FAR_KEY: null, LAB_KEY: null });
  const manifests = await manifestsOf(keyed, host);
  for (const manifest of manifests) checkManifest(manifest);
  const deployment = JSON.stringify(manifests.find((one) => one["kind"] === "Deployment"));
  const secret = (key: string) =>
    `{"name":"${key}","valueFrom":{"secretKeyRef":{"name":"canopy-keys","key":"${key}","optional":true}}}`;
  assert.ok(deployment.includes(`"env":[${secret("FAR_KEY")},${secret("LAB_KEY")}]`), deployment);
  const text = fileOf(await filesOf("kubernetes", keyed, host), "canopy.yaml");
  assert.match(text, /^# .*kubectl create secret generic canopy-keys --from-literal=FAR_KEY=/m);
  const units = await filesOf("systemd", keyed, host);
  assert.match(fileOf(units, "canopy-router.service"), /^EnvironmentFile=-\/etc\/canopy\/router\.env$/m);
  assert.match(fileOf(units, "canopy.target"), /^# FAR_KEY, LAB_KEY go into \/etc\/canopy\/router\.env\.$/m);

  const plain = await filesOf("compose", oneVllm, describedGpus("2xH200"));
  assert.equal(parse(fileOf(plain, "compose.yaml")).services.canopy.environment, undefined);
  assert.doesNotMatch(
    fileOf(await filesOf("systemd", oneVllm, describedGpus("2xH200")), "canopy.target"),
    /router\.env/,
  );
});

test("Compose: Canopy's image is built beside the files unless another one is named; checks need no shell", async () => {
  const config = configOf("launch-2-gpus-pd");
  const plan = await planned(config, noGpus, { isolated: true, engine: "sim" });
  const servicesOf = (buildsImage: boolean) => {
    const input = { config, plan, canopyImage: "canopy:1.2.3", buildsImage, canopyBinary: "/bin/true" };
    const files = new Map(emit("compose", input).map((file) => [file.path, file.text]));
    const { services } = parse(fileOf(files, "compose.yaml"));
    const all: { image: string; build?: string; healthcheck: { test: string[] } }[] = Object.values(services);
    return { files, all };
  };
  const { files, all } = servicesOf(true);
  assert.ok(all.length > 1);
  for (const { image, build, healthcheck } of all) {
    assert.deepEqual([image, build], ["canopy:1.2.3", "."]);
    assert.deepEqual(healthcheck.test.slice(0, 4), ["CMD", "/usr/local/bin/canopy", "health", "--url"]);
  }
  assert.match(
    fileOf(files, "Dockerfile"),
    /^FROM \S+:nonroot\nCOPY --chmod=0755 canopy \/usr\/local\/bin\/canopy$/m,
  );
  assert.deepEqual(servicesOf(false).all.map(({ build }) => build), all.map(() => undefined));
});

test("systemd: units verify, and engines on one GPU start one after the other", async (t) => {
  const files = await filesOf("systemd", "launch-1-gpu", recorded("h200x1.txt"));
  assert.match(
    fileOf(files, "canopy-32b.service"),
    /^After=network-online\.target canopy-4b\.service canopy-8b\.service$/m,
  );
  const odd = await filesOf("systemd", oneVllm, describedGpus("2xH200"));
  const unit = fileOf(odd, "canopy-8b-decode.service");
  // Of variables a dollar sign means itself; of commands it begins one.
  assert.match(unit, /^Environment="ODD=a \$b \\"c\\" 100%%"$/m);
  const paid = {
    models: { "8b": { model: "Qwen/Qwen3-8B", engine: "vllm", launch: { extra_args: ["a$b"] } } },
  };
  const service = fileOf(await filesOf("systemd", paid, describedGpus("1xH200")), "canopy-8b.service");
  assert.match(service, /^ExecStart=.* a\$\$b$/m);
  assert.match(unit, /^ExecStart=\/usr\/bin\/env vllm serve .*"\{\\"kv_connector\\":/m);
  if (!has("systemd-analyze")) return t.skip("systemd-analyze is not installed");
  for (const units of [files, odd]) {
    const names = [...units.keys()].filter((name) => /\.(service|target)$/.test(name));
    assert.equal(
      complaintsOf(units, "systemd-analyze", ["verify", "--man=no", ...names.map((name) => `./${name}`)]),
      "",
    );
  }
});

test("Slurm: scripts are valid, count GPUs from 0, and stop engines when the job ends", async () => {
  const cases = [
    await filesOf("slurm", "launch-2-gpus-pd", recorded("h200x6_busy.txt")),
    await filesOf("slurm", oneVllm, describedGpus("2xH200")),
    await filesOf("slurm", twoHosts, describedGpus("16xH200")),
  ];
  const [busy, , hosts] = cases.map((files) => fileOf(files, "canopy.sbatch"));
  assert.match(busy ?? "", /^#SBATCH --gpus-per-node=2$/m);
  assert.match(busy ?? "", /CUDA_VISIBLE_DEVICES=1 .*--disaggregation-mode decode/);
  assert.match(hosts ?? "", /^#SBATCH --nodes=2$/m);
  assert.match(hosts ?? "", /srun .*--nnodes 2 --node-rank \$SLURM_NODEID --dist-init-addr \$leader:5000/);
  for (const files of cases) assert.equal(complaintsOf(files, "bash", ["-n", "canopy.sbatch"]), "");
  if (!has("shellcheck")) return; // a host without it has checked the syntax
  // 2016: variables in single quotes are for the shell on each node.
  for (const files of cases) {
    assert.equal(complaintsOf(files, "shellcheck", ["--exclude=SC2016", "canopy.sbatch"]), "");
  }
});

test("Slurm: a job whose router fails has failed, and one that is told to end has not", async () => {
  const far = { models: { far: { model: "m", engine: "vllm", workers: ["http://far:8000"] } } };
  const script = fileOf(await filesOf("slurm", far, noGpus), "canopy.sbatch");
  const folder = mkdtempSync(join(tmpdir(), "canopy-slurm-"));
  const codeOf = (router: string, afterIt = "") => {
    const started = script.replace("/bin/true serve canopy.jsonc &\n", `${router} &\n${afterIt}`);
    writeFileSync(join(folder, "canopy.sbatch"), started);
    return spawnSync("bash", ["canopy.sbatch"], { cwd: folder, timeout: 20_000 }).status;
  };
  try {
    assert.equal(codeOf("bash -c 'exit 3'"), 3);
    assert.equal(codeOf("true"), 0);
    // The router ends its requests first.
    const router = `bash -c 'trap "sleep 0.2; exit 0" TERM; kill -TERM $PPID; while :; do sleep 0.05; done'`;
    assert.equal(codeOf(router), 0);
    // The signal is there before the shell has come to its next line.
    assert.equal(codeOf(router, "sleep 0.3\n"), 0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Kubernetes' own schemas, as the package kubernetes-models has compiled them. */
const KINDS: Readonly<Record<string, (data: unknown) => boolean>> = {
  StatefulSet: validateStatefulSet,
  Deployment: validateDeployment,
  ConfigMap: validateConfigMap,
  PersistentVolumeClaim: validateVolumeClaim,
  Service: validateService,
  ServiceAccount: validateAccount,
  Role: validateRole,
  RoleBinding: validateBinding,
};

/** Throws for a manifest that breaks its schema or has a field that the schema does not know. */
function checkManifest(manifest: JsonObject): void {
  const kind = String(manifest["kind"]);
  const validate = KINDS[kind];
  assert.ok(validate !== undefined, `no schema for ${kind}`);
  const { valid, unknown } = checkFields(manifest, validate);
  assert.ok(valid, `${kind} ${JSON.stringify(manifest)}: ${JSON.stringify(Reflect.get(validate, "errors"))}`);
  assert.deepEqual(unknown, [], kind);
  const { name } = isJsonObject(manifest["metadata"]) ? manifest["metadata"] : {};
  // The schemas know nothing of names: those of services are DNS labels as of old, which begin with a letter.
  if (kind === "Service") assert.match(String(name), /^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/);
}

/** LeaderWorkerSet is no part of Kubernetes: its own fields are checked here, its pods as those of a StatefulSet. */
function checkLeaderWorkerSet(manifest: JsonObject): void {
  const { apiVersion, metadata, spec } = manifest;
  assert.equal(apiVersion, "leaderworkerset.x-k8s.io/v1");
  assert.ok(isJsonObject(spec) && isJsonObject(spec["leaderWorkerTemplate"]));
  assert.deepEqual(Object.keys(spec), ["replicas", "leaderWorkerTemplate"]);
  const { size, restartPolicy, leaderTemplate, workerTemplate, ...rest } = spec["leaderWorkerTemplate"];
  assert.deepEqual([size, restartPolicy, rest], [2, "RecreateGroupOnPodRestart", {}]);
  for (const template of [leaderTemplate, workerTemplate]) {
    checkManifest({
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: metadata ?? {},
      spec: { serviceName: "x", selector: { matchLabels: { a: "b" } }, template: template ?? {} },
    });
  }
}

async function manifestsOf(
  ...args: Parameters<typeof filesOf> extends [unknown, ...infer Rest] ? Rest : never
) {
  const text = fileOf(await filesOf("kubernetes", ...args), "canopy.yaml");
  return parseAllDocuments(text).map((document): JsonObject => {
    assert.deepEqual(document.errors, []);
    const manifest: unknown = document.toJS();
    assert.ok(isJsonObject(manifest));
    return manifest;
  });
}

const namesOf = (manifests: readonly JsonObject[]) =>
  manifests.map(({ kind, metadata }) => `${kind} ${isJsonObject(metadata) ? metadata["name"] : ""}`);

test("Kubernetes: the checker finds missing and unknown fields", () => {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "a" },
    spec: { ports: [{ port: 1 }] },
  };
  checkManifest(service);
  assert.throws(() => checkManifest({ ...service, spec: { ports: [{}] } }), /port/);
  assert.throws(() => checkManifest({ ...service, spec: { portz: [] } }), /portz/);
});

test("Kubernetes: prefill and decode are workloads of their own, and all manifests follow the API's schemas", async () => {
  const manifests = await manifestsOf("launch-6-gpus-pd", recorded("h200x6.txt"));
  assert.deepEqual(namesOf(manifests).slice(0, 5), [
    "PersistentVolumeClaim canopy-models",
    "Service engine-4b-prefill",
    "StatefulSet engine-4b-prefill",
    "Service engine-4b-decode",
    "StatefulSet engine-4b-decode",
  ]);
  for (const manifest of manifests) checkManifest(manifest);
  // Pods cannot map each other's GPU memory, wherever they run.
  assert.match(JSON.stringify(manifests), /"--disaggregation-transfer-backend","mooncake_tcp"/);
  assert.doesNotMatch(JSON.stringify(manifests), /NVLINK/);
  const config = manifests.find((one) => one["kind"] === "ConfigMap")?.["data"];
  assert.ok(isJsonObject(config));
  assert.deepEqual(workersIn(String(config["canopy.jsonc"]), "8b"), [{
    prefill: "http://engine-8b-prefill-0.engine-8b-prefill:30002",
    bootstrap_port: 8_999,
    decode: "http://engine-8b-decode-0.engine-8b-decode:30003",
  }]);
  for (const manifest of await manifestsOf("launch-2-gpus-pd", noGpus, { engine: "sim" })) {
    checkManifest(manifest);
  }
});

test("Kubernetes: the router's account may look at pods, and prefill pods tell their registry by both names", async () => {
  const manifests = await manifestsOf("launch-6-gpus-pd", recorded("h200x6.txt"));
  const only = (kind: string) => manifests.find((one) => one["kind"] === kind);
  assert.deepEqual(only("Role")?.["rules"], [
    { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"] },
  ]);
  assert.deepEqual(only("RoleBinding")?.["subjects"], [{ kind: "ServiceAccount", name: "canopy" }]);
  assert.match(JSON.stringify(only("Deployment")), /"serviceAccountName":"canopy"/);
  const text = JSON.stringify(manifests);
  assert.match(text, /"canopy.dev\/bootstrap-port":"8999","sglang.ai\/bootstrap-port":"8999"/);
});

test("Kubernetes: the pause before the router's end needs no program, which its image does not have", async () => {
  const manifests = await manifestsOf("launch-6-gpus-pd", recorded("h200x6.txt"));
  const deployment = JSON.stringify(manifests.find((one) => one["kind"] === "Deployment"));
  assert.match(deployment, /"lifecycle":\{"preStop":\{"sleep":\{"seconds":5\}\}\}/);
});

test("Kubernetes: replicas are pods of one workload, each with an address of its own", async () => {
  const manifests = await manifestsOf("launch-2-gpus-vllm", recorded("mi300x8.json"));
  for (const manifest of manifests) checkManifest(manifest);
  const text = JSON.stringify(manifests);
  assert.match(text, /"replicas":2/);
  assert.match(text, /"amd\.com\/gpu":"1"/);
  const config = manifests.find((one) => one["kind"] === "ConfigMap")?.["data"];
  assert.ok(isJsonObject(config));
  assert.deepEqual(workersIn(String(config["canopy.jsonc"]), "8b"), [
    "http://engine-8b-0.engine-8b:30000",
    "http://engine-8b-1.engine-8b:30000",
  ]);
});

test("Kubernetes: pairs of a replicated model share the first one's ports, also that of the registry", async () => {
  const pairs = {
    models: { "8b": { model: "Qwen/Qwen3-8B", engine: "sglang-pd", launch: { replicas: 2 } } },
  };
  const manifests = await manifestsOf(pairs, describedGpus("4xH200"));
  const config = manifests.find((one) => one["kind"] === "ConfigMap")?.["data"];
  assert.ok(isJsonObject(config));
  assert.deepEqual(
    workersIn(String(config["canopy.jsonc"]), "8b"),
    [0, 1].map((pod) => ({
      prefill: `http://engine-8b-prefill-${pod}.engine-8b-prefill:30000`,
      bootstrap_port: 8_998,
      decode: `http://engine-8b-decode-${pod}.engine-8b-decode:30001`,
    })),
  );
});

test("Kubernetes: an engine that spans hosts is a LeaderWorkerSet", async () => {
  const manifests = await manifestsOf(twoHosts, describedGpus("16xH200"));
  const sets = manifests.filter((one) => one["kind"] === "LeaderWorkerSet");
  assert.equal(sets.length, 2);
  for (const set of sets) checkLeaderWorkerSet(set);
  for (const other of manifests) if (!sets.includes(other)) checkManifest(other);
  const [sglang, vllm] = sets.map((set) => JSON.stringify(set));
  assert.match(
    sglang ?? "",
    /"--node-rank","\$\(LWS_WORKER_INDEX\)","--dist-init-addr","\$\(LWS_LEADER_ADDRESS\):5000"/,
  );
  assert.match(vllm ?? "", /"--master-addr","\$\(LWS_LEADER_ADDRESS\)","--headless"/);
});

test("The version of a family decides the options of an engine that spans hosts, as a model's own does", async () => {
  const old = {
    models: { "8b": { model: "Qwen/Qwen3-8B", engine: "vllm", launch: { nodes: 2 } } },
    launch: { vllm: { version: "0.11.0" } },
  };
  for (const target of ["kubernetes", "slurm"] as const) {
    await assert.rejects(filesOf(target, old, describedGpus("2xH200")), {
      message: "vLLM 0.11.0 spans hosts only with Ray: use vLLM 0.12 or later, or SGLang",
    });
  }
});

test("Kubernetes gives whole GPUs, so a plan that shares one is refused", async () => {
  await assert.rejects(filesOf("kubernetes", "launch-1-gpu", recorded("h200x1.txt")), {
    message:
      "Cannot write files for Kubernetes: 4b and 8b share a GPU, and Kubernetes gives whole NVIDIA GPUs to " +
      "pods: plan with more of them, such as --gpus 3xH200",
  });
});

const HOSTILE =
  "a\nExecStartPre=/bin/touch /pwned\r\n[Service]\t$(touch /pwned) `id` ${HOME} %n 'q' \"d\" \\\\ ; &";
const hostile: JsonObject = {
  models: {
    "8b\nExecStart=/bin/id": {
      model: "Qwen/Qwen3-8B",
      engine: "vllm",
      launch: { env: { ODD: HOSTILE }, extra_args: ["--odd", HOSTILE, ";", "\u0007"], image: "vllm:1" },
    },
  },
};

test("Whatever arguments and environment hold, they stay what they are in every file", async () => {
  const host = describedGpus("1xH200");
  const units = await filesOf("systemd", hostile, host);
  const names = [...units.keys()].filter((name) => name.endsWith(".service"));
  assert.ok(names.every((name) => /^[\w.-]+$/.test(name)), names.join());
  for (const name of names) {
    const lines = fileOf(units, name).split("\n");
    assert.ok(lines.every((line) => /^(?:|\[\w+\]|\w+=.*)$/.test(line)), name);
    assert.equal(lines.filter((line) => line.startsWith("ExecStart=")).length, 1);
    assert.ok(!lines.some((line) => line.startsWith("ExecStartPre=")));
  }
  // deno-lint-ignore no-control-regex
  assert.ok(names.every((name) => !/[\u0000-\u0009\u000b-\u001f\u007f]/.test(fileOf(units, name))));

  if (has("systemd-analyze")) {
    const verify = ["verify", "--man=no", ...names.map((name) => `./${name}`)];
    assert.equal(complaintsOf(units, "systemd-analyze", verify), "");
  }

  const script = fileOf(await filesOf("slurm", hostile, host), "canopy.sbatch");
  const line = script.split("logs/8b")[0]?.split("\nenv ").at(-1) ?? "";
  const probe = `env() { printf '%s\\0' "$@"; }\nenv ${line.slice(0, line.lastIndexOf(">"))}`;
  const words = spawnSync("bash", ["-c", probe], { encoding: "utf8" }).stdout.split("\0");
  assert.ok(words.includes(`ODD=${HOSTILE}`));
  assert.equal(words[words.indexOf("--odd") + 1], HOSTILE);

  const compose = parse(fileOf(await filesOf("compose", hostile, host), "compose.yaml"));
  const [name] = Object.keys(compose.services).filter((name) => name !== "canopy");
  const service = compose.services[name ?? ""];
  const composed = HOSTILE.replaceAll("$", "$$$$");
  assert.equal(service.environment.ODD, composed);
  assert.ok(service.command.includes(composed));

  const kubernetes = fileOf(await filesOf("kubernetes", hostile, host), "canopy.yaml");
  const manifests = parseAllDocuments(kubernetes).map((document) => document.toJS());
  const { containers } = manifests.find(({ kind }) => kind === "StatefulSet").spec.template.spec;
  const written = HOSTILE.replaceAll("$(", "$$(");
  assert.ok(containers[0].args.includes(written));
  assert.equal(containers[0].env.find(({ name }: { name: string }) => name === "ODD").value, written);
});

test("Kubernetes and compose: a router that serves HTTPS is asked by it", async () => {
  const tls = { cert: "/etc/tls/cert.pem", key: "/etc/tls/key.pem" };
  const served = { models: { m: { model: "Qwen/Qwen3-8B", engine: "vllm" } }, server: { tls } };
  const text = fileOf(await filesOf("kubernetes", served, describedGpus("1xH200")), "canopy.yaml");
  const manifests = parseAllDocuments(text).map((document) => document.toJS());
  const [router] = manifests.find(({ kind }) => kind === "Deployment").spec.template.spec.containers;
  for (const { httpGet } of [router.readinessProbe, router.livenessProbe]) {
    assert.equal(httpGet.scheme, "HTTPS");
  }
  const compose = fileOf(await filesOf("compose", served, describedGpus("1xH200")), "compose.yaml");
  const { services } = parse(compose);
  assert.deepEqual(services.canopy.healthcheck.test.slice(2), ["health", "--url", "https://127.0.0.1:8000"]);
  assert.match(compose, /answer is on https:/);
});

test("Names of Kubernetes' own length and form come of any model's key, each once", async () => {
  const long = "RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w4a16-x/y";
  const model = { model: "Qwen/Qwen3-8B", engine: "vllm" };
  const models = {
    [long]: model,
    [`${long}!`]: model,
    "_odd_": model,
    "small": { ...model, launch: { replicas: 2 } },
    "Small": model,
  };
  const text = fileOf(await filesOf("kubernetes", { models }, describedGpus("6xH200")), "canopy.yaml");
  const manifests = parseAllDocuments(text).map((document) => document.toJS());
  const sets = manifests.filter(({ kind }) => kind === "StatefulSet");
  const names = sets.map(({ metadata }) => metadata.name);
  assert.equal(new Set(names).size, 5, names.join());
  for (const { metadata: { name, labels } } of sets) {
    assert.match(name, /^[a-z][-a-z0-9]{0,46}[a-z0-9]$/);
    for (const value of Object.values(labels)) {
      assert.match(String(value), /^[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?$/);
    }
  }
});

test("Models that are called as the router's own service or unit stand beside it", async () => {
  const model = { model: "Qwen/Qwen3-8B", engine: "vllm" };
  const host = describedGpus("2xH200");
  const named = { models: { canopy: model, router: model } };
  const { services } = parse(fileOf(await filesOf("compose", named, host), "compose.yaml"));
  assert.equal(Object.keys(services).length, 3);
  const units = await filesOf("systemd", named, host);
  assert.equal([...units.keys()].filter((name) => name.endsWith(".service")).length, 3);
});

test("Names of variables that would be something else to a shell are refused, and so is what no process can be given", () => {
  const load = (launch: JsonObject) => () =>
    configOf({ models: { m: { model: "m", engine: "vllm", launch } } });
  for (const name of ["A B", "A;id", "A\nB", "1A", "A=B", "$(id)"]) {
    assert.throws(load({ env: { [name]: "x" } }), name);
  }
  assert.throws(load({ env: { A: "a\0b" } }));
  assert.throws(load({ extra_args: ["a\0b"] }));
  load({ env: { _A1: "x" } })();
});

test("Emitted files hold nothing of this machine", async () => {
  for (const target of ["compose", "systemd", "slurm", "kubernetes"] as const) {
    const files = await filesOf(target, "launch-6-gpus-pd", recorded("h200x6.txt"));
    const text = [...files.values()].join("\n");
    assert.doesNotMatch(text, /GPU-[0-9a-f]{8}|\/cache\b(?!\/huggingface)/);
  }
});
