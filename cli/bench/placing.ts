import { comparePolicies } from "../../bench/experiments/placing.ts";
import { SIZES } from "../../bench/experiments/world.ts";
import { placingReport } from "../../bench/report/placing_report.ts";
import { POLICY_NAMES } from "../../cfgs/schema/policies.ts";
import { costNamed } from "../kit/cost_file.ts";
import { defineCommand } from "../kit/command.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";

const DEFAULTS = { policies: ["cache_aware", "round_robin"], clients: 16, routers: 1, seed: "canopy" };

/** `canopy bench placing`: policies side by side. */
export const benchPlacingCommand = defineCommand({
  name: "bench placing",
  summary: "Compare policies: prefixes found in caches, and how evenly requests spread; simulated",
  maxArguments: 0,
  options: {
    policy: {
      type: "list",
      value: "NAME",
      choices: POLICY_NAMES,
      help: `Policies to compare; ${DEFAULTS.policies.join(" and ")} by default`,
    },
    clients: { type: "number", value: "N", min: 1, max: 1_000, help: "Clients that ask; 16 by default" },
    routers: {
      type: "number",
      value: "N",
      min: 1,
      max: 16,
      help: "Routers that know nothing of each other, each with every n-th request; 1 by default",
    },
    percent: { type: "number", value: "N", min: 1, max: 100, help: "Of the requests; 100 by default" },
    cost: {
      type: "text",
      value: "SIZE|FILE",
      help: "What the model takes: a file of bench calibrate, or a size on an H200; 8b by default",
    },
    seed: { type: "text", value: "TEXT", help: "The same seed gives the same figures; canopy by default" },
    ...REPORT_OPTIONS,
  },
  details:
    `32 prefixes of 8 kB, each request with an end of its own, before four servers that hold 12 prefixes each
and before two prefill and two decode servers; then prompts that share nothing.

Examples:
  canopy bench placing
  canopy bench placing --policy cache_aware --policy least_load --clients 64 --routers 2`,
  run: async (values, _, io) => {
    const settings = {
      policies: values.policy.length === 0 ? DEFAULTS.policies : values.policy,
      clients: values.clients ?? DEFAULTS.clients,
      routers: values.routers ?? DEFAULTS.routers,
      share: (values.percent ?? 100) / 100,
      seed: values.seed ?? DEFAULTS.seed,
      cost: values.cost === undefined ? undefined : costNamed(values.cost, SIZES, io),
    };
    const progress = new Progress(io);
    const onPart = (part: string) => progress.show(part);
    try {
      const results = await comparePolicies({ ...settings, signal: io.stop, onPart });
      const { clients, routers, seed } = settings;
      const origin =
        `Simulated, not measured: cost model of ${
          values.cost === undefined ? "H200 GPUs" : `servers as ${values.cost}`
        }; SGLang; ${clients} clients, ` +
        `${routers} ${routers === 1 ? "router" : "routers"}; seed ${seed}`;
      return await writeReport(placingReport(results, origin, settings), values, io);
    } finally {
      progress.end();
    }
  },
});
