import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { commandsFor } from "../../../cli/commands.ts";
import {
  DOCKERFILE,
  PROGRAM_IN_CONTAINER,
  releaseDockerfile,
} from "../../../launcher/emit/container_file.ts";
import { emit, type EmitTarget } from "../../../launcher/emit/emit.ts";
import { describedGpus } from "../../../launcher/host/gpus_described.ts";
import { noGpus } from "../../../launcher/host/gpu.ts";
import { binaryName, containedBinary, TARGETS } from "../../../release/targets.ts";
import { configOf, planned } from "../planned.ts";

const IMAGE = "canopy:1.2.3";

/** The instructions of a container file, each with its arguments. */
function instructionsOf(text: string): [name: string, rest: string][] {
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
    const [, name = "", rest = ""] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    assert.notEqual(name, "", line);
    return [name, rest];
  });
}

/** Arguments in the form that needs no shell. */
function wordsOf(text: string): string[] {
  const words: unknown = JSON.parse(text.slice(text.indexOf("[")));
  assert.ok(Array.isArray(words) && words.every((word) => typeof word === "string"), text);
  return words;
}

/** Fails unless this is a command line of Canopy. */
async function assertCommand([name = "", ...args]: readonly string[]): Promise<void> {
  const [command, ...others] = await commandsFor([name]);
  assert.ok(command !== undefined && others.length === 0, `there is no command ${name}`);
  for (const arg of args.filter((word) => word.startsWith("--"))) {
    assert.ok(Object.hasOwn(command.options, arg.slice(2)), `${name} has no option ${arg}`);
  }
}

for (const file of [DOCKERFILE, releaseDockerfile(TARGETS.map(containedBinary))]) {
  const isRelease = file !== DOCKERFILE;
  test(`the container file ${isRelease ? "of a release" : "beside a binary"} starts Canopy without a shell and without root`, async () => {
    const instructions = instructionsOf(file.text);
    const all = (name: string) => instructions.flatMap(([one, rest]) => one === name ? [rest] : []);
    const bases = all("FROM").filter((from) => !from.startsWith("canopy-"));
    for (const base of bases) assert.match(base, /^gcr\.io\/distroless\/cc-debian12:nonroot(?: AS \S+)?$/);
    assert.deepEqual([all("USER"), all("RUN"), all("SHELL")], [[], [], []]);
    const copied = all("COPY").map((rest) => rest.split(" "));
    const binaries = isRelease ? TARGETS.map(binaryName) : ["canopy"];
    assert.deepEqual(copied, binaries.map((name) => ["--chmod=0755", name, PROGRAM_IN_CONTAINER]));
    if (isRelease) {
      const stages = bases.map((base) => base.split(" AS ")[1]);
      assert.deepEqual(stages, ["canopy-amd64", "canopy-arm64"]);
      assert.deepEqual([all("ARG"), all("FROM").at(-1)], [["TARGETARCH"], "canopy-${TARGETARCH}"]);
    }
    assert.deepEqual(all("ENTRYPOINT").map(wordsOf), [[PROGRAM_IN_CONTAINER]]);
    await assertCommand(wordsOf(all("CMD")[0] ?? ""));
    const [program, ...check] = wordsOf(all("HEALTHCHECK")[0] ?? "");
    assert.equal(program, PROGRAM_IN_CONTAINER);
    await assertCommand(check);
  });
}

async function filesOf(target: EmitTarget, simulated: boolean): Promise<Map<string, string>> {
  const config = configOf("launch-2-gpus-pd");
  const host = simulated ? noGpus : describedGpus("2xH200");
  const plan = await planned(config, host, { isolated: true, ...(simulated ? { engine: "sim" } : {}) });
  const input = { config, plan, canopyImage: IMAGE, buildsImage: true, canopyBinary: "/bin/true" };
  return new Map(emit(target, input).map((file) => [file.path, file.text]));
}

/** Hosts of all addresses in a configuration. */
function hostsIn(text: string): string[] {
  return [...new Set([...text.matchAll(/http:\/\/([\w.-]+):\d+/g)].map(([, host = ""]) => host))];
}

/** Names of engines' images: their projects' own, of a version. */
const ENGINE_IMAGE = /^(?:lmsysorg\/sglang|vllm\/vllm-openai):v\d+\.\d+\.\d+$/;

test("Compose: images, files and addresses of the project are there, and Canopy's containers run Canopy alone", async () => {
  for (const simulated of [false, true]) {
    const files = await filesOf("compose", simulated);
    const { services, volumes } = parse(files.get("compose.yaml") ?? "");
    const names = Object.keys(services);
    for (const [name, service] of Object.entries<Record<string, Json>>(services)) {
      const { image, build, entrypoint, command, healthcheck, volumes: mounted } = service;
      const isCanopy = image === IMAGE;
      assert.ok(isCanopy || ENGINE_IMAGE.test(String(image)), `${name}: ${image}`);
      assert.equal(isCanopy, simulated || name === "canopy");
      assert.equal(build, isCanopy ? "." : undefined);
      for (const mount of Array.isArray(mounted) ? mounted.map(String) : []) {
        const [source = "", target = ""] = mount.split(":");
        if (source.startsWith("./")) {
          assert.ok(files.has(source.slice(2)), mount);
          assert.ok(
            Array.isArray(command) && command.includes(target),
            `${target} is what the command reads`,
          );
        } else assert.ok(Object.hasOwn(volumes, source), mount);
      }
      if (!isCanopy) continue;
      assert.ok(entrypoint === undefined || JSON.stringify(entrypoint) === `["${PROGRAM_IN_CONTAINER}"]`);
      assert.ok(Array.isArray(command) && isJsonObject(healthcheck) && Array.isArray(healthcheck["test"]));
      await assertCommand(command.map(String));
      const [how, program, ...check] = healthcheck["test"].map(String);
      assert.deepEqual([how, program], ["CMD", PROGRAM_IN_CONTAINER]);
      await assertCommand(check);
    }
    assert.ok(files.has("Dockerfile"), "what `build` needs");
    const hosts = hostsIn(files.get("canopy.jsonc") ?? "");
    assert.ok(hosts.length > 0 && hosts.every((host) => names.includes(host)), hosts.join(" "));
  }
});

function partsOf(manifest: JsonObject | undefined, ...path: string[]): Json | undefined {
  return path.reduce<Json | undefined>((at, name) => isJsonObject(at) ? at[name] : undefined, manifest);
}

test("Kubernetes: images, files and addresses are there, and Canopy's containers run Canopy alone", async () => {
  const manifests = parseAllDocuments((await filesOf("kubernetes", true)).get("canopy.yaml") ?? "")
    .map((document): JsonObject => document.toJS());
  const named = (kind: string, name: string) =>
    manifests.find((one) => one["kind"] === kind && partsOf(one, "metadata", "name") === name);
  const workloads = manifests.filter((one) => partsOf(one, "spec", "template") !== undefined);
  assert.ok(workloads.length > 1);
  for (const workload of workloads) {
    const containers = partsOf(workload, "spec", "template", "spec", "containers");
    const volumes = partsOf(workload, "spec", "template", "spec", "volumes") ?? [];
    assert.ok(Array.isArray(containers) && Array.isArray(volumes));
    for (const container of containers.filter(isJsonObject)) {
      const { image, command, args, volumeMounts } = container;
      assert.equal(image, IMAGE);
      assert.ok(command === undefined || JSON.stringify(command) === `["${PROGRAM_IN_CONTAINER}"]`);
      assert.ok(Array.isArray(args));
      await assertCommand(args.map(String));
      assert.doesNotMatch(JSON.stringify(container), /"exec"/, "there is no program but Canopy to execute");
      for (
        const { name, mountPath } of Array.isArray(volumeMounts) ? volumeMounts.filter(isJsonObject) : []
      ) {
        const volume = volumes.filter(isJsonObject).find((one) => one["name"] === name);
        const map = partsOf(volume, "configMap", "name");
        if (map === undefined) continue;
        const files = Object.keys(partsOf(named("ConfigMap", String(map)), "data") ?? {});
        assert.ok(files.some((file) => args.includes(`${String(mountPath)}/${file}`)), `${mountPath}`);
      }
    }
  }
  const config = partsOf(named("ConfigMap", "canopy"), "data", "canopy.jsonc");
  for (const host of hostsIn(String(config)).filter((one) => one !== "0.0.0.0")) {
    const [pod = "", service = ""] = host.split(".");
    assert.ok(named("Service", service) !== undefined, host);
    assert.ok(named("StatefulSet", pod.replace(/-\d+$/, "")) !== undefined, host);
  }
});
