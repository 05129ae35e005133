import { compareHedges, hedgeNamed, HEDGES, LEARNING } from "../../bench/experiments/hedge.ts";
import { hedgeReport } from "../../bench/report/hedge_report.ts";
import { POLICY_NAMES } from "../../cfgs/schema/policies.ts";
import { defineCommand } from "../kit/command.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";

const POLICIES = ["round_robin", "least_load"];
const DEFAULTS = { questions: 200, clients: 8, seed: "canopy" };

/** `canopy bench hedge`: second attempts before one slow worker. */
export const benchHedgeCommand = defineCommand({
  name: "bench hedge",
  summary:
    "One slow worker of four: the slowest runs with second attempts at late agents, and without; simulated",
  maxArguments: 0,
  options: {
    hedge: {
      type: "list",
      value: "AFTER/SHARE",
      help: `A model's "hedge" to try, or none; ${HEDGES.join(", ")} by default`,
    },
    policy: {
      type: "list",
      value: "NAME",
      choices: POLICY_NAMES,
      help: `Policies to try; ${POLICIES.join(" and ")} by default`,
    },
    questions: {
      type: "number",
      value: "N",
      min: LEARNING + 1,
      max: 100_000,
      help: `Questions of each row; ${DEFAULTS.questions} by default. The first ${LEARNING} do not count`,
    },
    clients: {
      type: "number",
      value: "N",
      min: 1,
      max: 1_000,
      help: `Questions at the same time; ${DEFAULTS.clients} by default`,
    },
    seed: { type: "text", value: "TEXT", help: "The same seed gives the same figures; canopy by default" },
    ...REPORT_OPTIONS,
  },
  details:
    `Three agents of one model on four workers, and a root of another model. One worker is slow now and then (10
times, before a tenth of the questions, for one answer), or always (4 times).

Examples:
  canopy bench hedge
  canopy bench hedge --hedge none --hedge p60/0.4 --policy least_load --clients 1 --json hedge.json`,
  run: async (values, _, io) => {
    const settings = {
      hedges: values.hedge.length === 0 ? HEDGES : values.hedge,
      policies: values.policy.length === 0 ? POLICIES : values.policy,
      questions: values.questions ?? DEFAULTS.questions,
      clients: values.clients ?? DEFAULTS.clients,
      seed: values.seed ?? DEFAULTS.seed,
    };
    for (const hedge of settings.hedges) hedgeNamed(hedge);
    const progress = new Progress(io);
    const onPart = (part: string) => progress.show(part);
    try {
      const results = await compareHedges({ ...settings, signal: io.stop, onPart });
      const { questions, clients, seed } = settings;
      const origin = `Simulated, not measured: cost model of H200 GPUs; SGLang; ${questions} questions, ` +
        `${clients === 1 ? "one" : clients} at a time; seed ${seed}`;
      return await writeReport(hedgeReport(results, origin, settings), values, io);
    } finally {
      progress.end();
    }
  },
});
