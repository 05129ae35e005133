import type { JsonObject } from "../../base/json.ts";
import { type EarlyExitConfig, earlyExitSchema } from "../../cfgs/schema/early_exit.ts";
import { readAnswers } from "../kit/answers/answer_file.ts";
import { type ComparedGroup, compareGroup, evidenceFor, stateAfter } from "../kit/answers/compared_group.ts";
import { EMBEDDER_OPTIONS, openEmbedder } from "../kit/answers/embedder_options.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import { exitPolicyOf } from "../../scorer/exit_policy_of.ts";
import { qualityOf } from "../../scorer/metrics/quality.ts";
import { confidenceOf } from "../../scorer/policy/confidence.ts";
import { finite } from "../../scorer/policy/evidence.ts";
import type { SimilarityMetric } from "../../scorer/scorer.ts";

const SIMILARITIES = ["fcs", "fcs_u", "cosine"] as const;
const METRICS = ["q", "answer", "verdict", "agreement", "random"] as const;

/** `canopy score`: similarity, confidence and Q of answers in a file, and what each exit metric would have done. */
export const scoreCommand = defineCommand({
  name: "score",
  summary: "Similarity, confidence and Q for answers in a file",
  arguments: "FILE|-",
  maxArguments: 1,
  options: {
    ...EMBEDDER_OPTIONS,
    similarity: {
      type: "text",
      value: "NAME",
      choices: SIMILARITIES,
      help: "How texts are compared; fcs by default, fcs_u for agreement",
    },
    whitening: {
      type: "text",
      value: "FILE",
      help: "Calibration of cosine, as canopy tune writes it; needs --model",
    },
    tau: {
      type: "number",
      value: "T",
      fraction: true,
      min: 0,
      max: 1,
      help: "q: similarity at which B is 1; 0.7 by default",
    },
    gamma: {
      type: "number",
      value: "G",
      fraction: true,
      min: 0,
      max: 1,
      help: "q: weight of confidence; 0.5 by default",
    },
    "paper-literal": {
      type: "flag",
      help: "q: the algorithm as printed, with self-pairs and from the first answer on",
    },
    seed: { type: "text", value: "TEXT", help: "Of what is drawn; canopy by default" },
  },
  details: `Each line of the file is one answer, in the order in which they were complete:
  {"group": "q1", "id": "a1", "text": "…", "question": "…", "logprobs": [-0.1, …], "cut": false, "verdicts": {"a0": 0.9}}
Only "text" is needed; lines of one group answer the same question. "verdicts" has the probability that a model gave to
"these two answers agree". Records of runs (GET /v1/runs/ID), one a line, are read as well.

For each answer one line of JSON is printed: its tokens and confidence, its similarity to the answers before it, then
C̄, P, B and Q after it, and what each metric would do (with all its numbers) while the rest of the group is at work.

Examples:
  canopy score answers.jsonl --model ./qwen3-embedding | jq '.would.agreement.exit'
  curl -s localhost:8000/v1/runs/ID | jq -c . | canopy score -`,
  run: async (values, [file], io) => {
    if (file === undefined) {
      throw new UsageError("Needs the FILE with the answers, or - for what is piped in");
    }
    if (values.whitening !== undefined && values.model === undefined) {
      throw new UsageError("Option --whitening needs --model");
    }
    const groups = await readAnswers(file, io);
    const embedder = await openEmbedder(values, io, values.whitening);
    try {
      const settings = earlyExitSchema.parse({
        similarity: values.similarity,
        tau: values.tau,
        gamma: values.gamma,
        paper_literal: values["paper-literal"],
      });
      const seed = values.seed ?? "canopy";
      const compared = values.similarity === undefined ? ["fcs", "fcs_u"] as const : [values.similarity];
      for (const group of groups) {
        io.stop.throwIfAborted();
        const result = await compareGroup(group, embedder, compared);
        for (let count = 1; count <= group.answers.length; count++) {
          io.out.write(`${JSON.stringify(lineOf(result, count, settings, seed))}\n`);
        }
      }
      return 0;
    } finally {
      await embedder.close();
    }
  },
});

function lineOf(
  compared: ComparedGroup,
  count: number,
  settings: EarlyExitConfig,
  seed: string,
): JsonObject {
  const { group, completions, features } = compared;
  const place = count - 1;
  const metric: SimilarityMetric = settings.similarity ?? "fcs";
  const each = completions.slice(0, count).map(({ logprobs }) => confidenceOf(logprobs, settings));
  const known = each.filter((confidence) => confidence !== undefined);
  const { cBar, p, b, q } = qualityOf(
    count,
    known.length === count ? known : undefined,
    (i, j) => compared.similarity(metric, j, i)?.value,
    { tau: settings.tau, gamma: settings.gamma, literal: settings.paper_literal },
  );
  return {
    group: group.id,
    id: completions[place]!.agent,
    tokens: features[place]!.tokens,
    confidence: finite(each[place]),
    metric,
    similarity: [...completions.keys()].slice(0, count).map((other) =>
      other === place ? 1 : finite(compared.similarity(metric, other, place)?.value)
    ),
    completions: count,
    c_bar: finite(cBar),
    p: finite(p),
    b: finite(b),
    q: finite(q),
    would: Object.fromEntries(
      METRICS.map((name) => [name, decisionOf(compared, count, { ...settings, metric: name }, seed)]),
    ),
  };
}

function decisionOf(
  compared: ComparedGroup,
  count: number,
  settings: EarlyExitConfig,
  seed: string,
): JsonObject {
  const policy = exitPolicyOf(settings)!;
  const evidence = evidenceFor(compared, policy.needs.similarity);
  const { exit, keep, consensus, numbers } = policy.decide(stateAfter(compared, count, seed), evidence);
  return { exit, keep: [...keep], consensus: consensus === undefined ? null : { ...consensus }, ...numbers };
}
