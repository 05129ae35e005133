import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { type Gpu, type HostGpus, isBusy } from "../../../launcher/host/gpu.ts";
import { describedGpus } from "../../../launcher/host/gpus_described.ts";
import type { ModelShape } from "../../../launcher/model/model_shape.ts";
import { type Demand, leastTokens } from "../../../launcher/place/demand.ts";
import { place } from "../../../launcher/place/place.ts";
import { fixtureShape, recorded } from "../planned.ts";

function demandOf(name: string, more: Partial<Demand> = {}): Demand {
  return {
    name,
    modelKey: name,
    family: "sglang",
    role: "whole",
    shape: fixtureShape("Qwen/Qwen3-8B"),
    tensorParallel: undefined,
    nodes: 1,
    contextTokens: undefined,
    memoryFraction: undefined,
    gpus: undefined,
    ...more,
  };
}

function placed(demands: readonly Demand[], host: HostGpus) {
  const result = place(demands, host);
  assert.ok("placed" in result, JSON.stringify(result));
  return result.placed;
}

const shapes: fc.Arbitrary<ModelShape> = fc.record({
  model: fc.constant("org/name"),
  weightBytes: fc.double({ min: 28, max: 37, noNaN: true }).map((exponent) => Math.round(2 ** exponent)),
  kvBytesPerToken: fc.integer({ min: 4_096, max: 2 ** 18 }),
  layers: fc.constant(32),
  hiddenSize: fc.constantFrom(2_048, 4_096, 8_192),
  attentionHeads: fc.constantFrom(28, 32, 40, 64),
  kvHeads: fc.constantFrom(1, 4, 8),
  vocabSize: fc.constantFrom(32_000, 151_936),
  weightType: fc.constant("bf16"),
  maxContextTokens: fc.constantFrom(4_096, 32_768, 262_144),
  source: fc.constant("made up"),
});

const hosts: fc.Arbitrary<HostGpus> = fc.record({
  gpus: fc.array(
    fc.record({
      totalMiB: fc.constantFrom(16_384, 24_564, 81_559, 143_771),
      usedShare: fc.constantFrom(0, 0.001, 0.04, 0.06, 0.5, 1),
      isSlice: fc.boolean(),
    }),
    { minLength: 1, maxLength: 8 },
  ),
  links: fc.boolean(),
}).map(({ gpus, links }) => ({
  gpus: gpus.map(({ totalMiB, usedShare, isSlice }, index): Gpu => ({
    id: String(index),
    index,
    uuid: `${isSlice ? "MIG" : "GPU"}-${index}`,
    name: `GPU of ${totalMiB}`,
    vendor: "nvidia",
    totalMiB,
    usedMiB: Math.round(totalMiB * usedShare),
    computeCapability: undefined,
    numaNode: undefined,
  })),
  driver: undefined,
  linked: () => links,
  source: "made up",
}));

const manyDemands = fc.array(
  fc.record({
    shape: shapes,
    family: fc.constantFrom("sglang" as const, "vllm" as const, "sim" as const),
    isPair: fc.boolean(),
    tensorParallel: fc.constantFrom(undefined, undefined, 1, 2, 4),
    contextTokens: fc.constantFrom(undefined, 2_048, 16_384, 131_072),
    memoryFraction: fc.constantFrom(undefined, undefined, undefined, 0.3, 0.9),
    gpus: fc.constantFrom(undefined, undefined, [0, 1], [3]),
  }),
  { minLength: 1, maxLength: 4 },
).map((models) =>
  models.flatMap(({ isPair, ...model }, at): Demand[] => {
    const roles = isPair ? ["prefill" as const, "decode" as const] : ["whole" as const];
    return roles.map((role) => ({ ...model, name: `m${at}-${role}`, modelKey: `m${at}`, role, nodes: 1 }));
  })
);

test("No plan ever exceeds a GPU's memory, uses a busy GPU, or breaks what was asked for", () => {
  let plans = 0;
  fc.assert(
    fc.property(manyDemands, hosts, (demands, host) => {
      const result = place(demands, host);
      if (!("placed" in result)) {
        assert.ok(demands.includes(result.unplaced.demand));
        return;
      }
      plans++;
      assert.deepEqual(result.placed.map((one) => one.demand), demands);
      const taken = new Map<Gpu, number>();
      for (const one of result.placed) {
        const { demand, gpus, ranks, reserve, weightsMiB, kvMiB, kvTokens, contextTokens } = one;
        assert.equal(new Set(gpus).size, gpus.length);
        assert.equal(gpus.length, ranks);
        if (demand.tensorParallel !== undefined) assert.equal(ranks, demand.tensorParallel);
        assert.ok(weightsMiB * ranks * 2 ** 20 >= demand.shape.weightBytes);
        for (const gpu of gpus) {
          assert.ok(!isBusy(gpu), `${demand.name} on a busy GPU`);
          assert.ok(demand.gpus?.includes(gpu.index) ?? true);
          assert.ok(ranks === 1 || gpu.uuid.startsWith("GPU-"), "ranks on slices");
          const whole = weightsMiB + reserve.activationMiB + reserve.graphsMiB + kvMiB;
          taken.set(gpu, (taken.get(gpu) ?? 0) + whole);
        }
        if (demand.memoryFraction !== undefined) continue;
        assert.ok(kvTokens >= leastTokens(demand), `${demand.name} holds ${kvTokens} tokens`);
        assert.ok(contextTokens <= kvTokens);
        if (demand.contextTokens !== undefined) assert.equal(contextTokens, demand.contextTokens);
      }
      for (const [gpu, mib] of taken) {
        // An engine whose fraction leaves no cache is refused before anything is started.
        const refused = result.placed.some((one) => one.kvTokens === 0 && one.gpus.includes(gpu));
        if (!refused) assert.ok(mib + gpu.usedMiB <= gpu.totalMiB, `${mib} of ${gpu.totalMiB} MiB`);
      }
    }),
    { numRuns: 1_000 },
  );
  assert.ok(plans > 50, `only ${plans} plans`);
});

test("While there are GPUs for all, no two engines share one", () => {
  const pair = ["4B", "8B", "32B"].flatMap((size) =>
    (["prefill", "decode"] as const).map((role) =>
      demandOf(`${size}-${role}`, {
        role,
        modelKey: size,
        shape: fixtureShape(`Qwen/Qwen3-VL-${size}-Instruct`),
      })
    )
  );
  const apart = placed(pair, recorded("h200x6.txt"));
  assert.equal(new Set(apart.flatMap((one) => one.gpus)).size, 6);
  assert.ok(apart.every((one) => one.beside.length === 0));
});

test("The halves of a pair share a GPU only when there is no other", () => {
  const halves = (["prefill", "decode"] as const).map((role) => demandOf(role, { role, modelKey: "8b" }));
  const small = demandOf("small", { shape: fixtureShape("Qwen/Qwen3-4B") });
  const two = placed([...halves, small], describedGpus("2xH200"));
  assert.notEqual(two[0]?.gpus[0], two[1]?.gpus[0]);
  const one = placed(halves, describedGpus("1xH200"));
  assert.deepEqual(one.map((half) => half.beside), [["decode"], ["prefill"]]);
});

test("A model is divided among as few GPUs as hold it, on GPUs that are linked", () => {
  const large = demandOf("70b", { shape: fixtureShape("meta-llama/Llama-3.1-70B-Instruct") });
  assert.equal(placed([large], describedGpus("2xH200"))[0]?.ranks, 2);
  assert.equal(placed([large], describedGpus("8xA100"))[0]?.ranks, 2);
  assert.equal(placed([large], describedGpus("8xL40S"))[0]?.ranks, 4);
  const host = describedGpus("4xH200");
  const islands = { ...host, linked: (a: number, b: number) => a % 2 === b % 2 };
  const both = placed([large, { ...large, name: "other" }], islands);
  assert.deepEqual(both.map((one) => one.gpus.map((gpu) => gpu.index)), [[0, 2], [1, 3]]);
});

test("Engines on one GPU get what they need and then equally many tokens; one alone works in its usual steps", () => {
  const host = describedGpus("1xH200");
  const long = demandOf("long", { contextTokens: 100_000 });
  const short = demandOf("short", { contextTokens: 8_192, shape: fixtureShape("Qwen/Qwen3-4B") });
  const [first, second] = placed([long, short], host);
  assert.ok(first !== undefined && second !== undefined);
  assert.ok(Math.abs((first.kvTokens - 100_000) - (second.kvTokens - 8_192)) <= 1);
  assert.equal(first.reserve.stepTokens, 2_048);
  assert.equal(placed([long], host)[0]?.reserve.stepTokens, 8_192);
});

test("A slice of a GPU takes an engine that fits, and none that would span slices", () => {
  const host = recorded("a100_mig.txt");
  const only = demandOf("8b", { contextTokens: 2_048 });
  assert.equal(
    placed([only], { ...host, gpus: host.gpus.filter((gpu) => gpu.index === 1) })[0]?.gpus[0]?.id,
    "1",
  );
  const slices = { ...host, gpus: host.gpus.filter((gpu) => gpu.uuid.startsWith("MIG-")) };
  const small = demandOf("4b", { shape: fixtureShape("Qwen/Qwen3-4B") });
  assert.match(placed([small], slices)[0]?.gpus[0]?.name ?? "", /3g\.20gb/);
  assert.ok("unplaced" in place([demandOf("8b", { tensorParallel: 2 })], slices));
});
