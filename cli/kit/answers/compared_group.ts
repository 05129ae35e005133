import type { AnswerGroup } from "./answer_file.ts";
import type { AnswerFeatures, Embedder } from "../../../scorer/embedders/embedder.ts";
import type { ClusterState, Completion, Evidence } from "../../../scorer/policy/exit_policy.ts";
import type { Similarity, SimilarityMetric } from "../../../scorer/scorer.ts";

/** A group with the features of its answers, and all similarities of its pairs. */
export interface ComparedGroup {
  readonly group: AnswerGroup;
  readonly completions: readonly Completion[];
  readonly features: readonly AnswerFeatures[];
  /** Undefined for a metric that was not asked for. */
  similarity(metric: SimilarityMetric, a: number, b: number): Similarity | undefined;
  verdict(a: number, b: number): number | undefined;
}

/** Embeds all answers of a group and compares each with each. */
export async function compareGroup(
  group: AnswerGroup,
  embedder: Embedder,
  metrics: readonly SimilarityMetric[],
): Promise<ComparedGroup> {
  const features: AnswerFeatures[] = [];
  for (const { text } of group.answers) features.push(await featuresOf(text, embedder));
  const table = new Map<string, Similarity>();
  for (const metric of metrics) {
    for (const [b, second] of features.entries()) {
      for (const [a, first] of features.slice(0, b).entries()) {
        table.set(`${metric} ${a} ${b}`, await compare(first, second, metric));
      }
    }
  }
  return {
    group,
    features,
    completions: group.answers.map(({ id, model, text, logprobs, cut }) => ({
      agent: id,
      model,
      text,
      logprobs,
      cut,
    })),
    similarity: (metric, a, b) => table.get(`${metric} ${a} ${b}`),
    verdict: (a, b) => {
      const [first, second] = [group.answers[a]!, group.answers[b]!];
      return second.verdicts.get(first.id) ?? first.verdicts.get(second.id);
    },
  };
}

/** The similarity of two answers as a scorer would give it. */
export async function compare(
  a: AnswerFeatures,
  b: AnswerFeatures,
  metric: SimilarityMetric,
): Promise<Similarity> {
  const value = await a.compare(b, metric);
  const [first, second] = [a.effectiveDimensions, b.effectiveDimensions];
  return {
    metric,
    value,
    tokens: [a.tokens, b.tokens],
    reason: value === undefined ? "one of the texts has no tokens" : undefined,
    effectiveDimensions: first === undefined || second === undefined || metric === "cosine"
      ? undefined
      : [first, second],
  };
}

/** The group after its first `count` answers; `seed`: of what is drawn. */
export function stateAfter(
  { group, completions }: ComparedGroup,
  count: number,
  seed: string,
): ClusterState {
  return {
    seed,
    cluster: group.id,
    question: group.question,
    completions: completions.slice(0, count),
    unfinished: completions.slice(count).map(({ agent, model }) => ({ agent, model })),
  };
}

/** Evidence from the group for a policy that compares with `metric`. */
export function evidenceFor(compared: ComparedGroup, metric: SimilarityMetric | undefined): Evidence {
  return {
    similarity: ([a, b]) => metric === undefined ? undefined : compared.similarity(metric, a, b),
    verdict: ([a, b]) => {
      const yes = compared.verdict(a, b);
      return yes === undefined ? undefined : { yes, model: "recorded" };
    },
  };
}

async function featuresOf(text: string, embedder: Embedder): Promise<AnswerFeatures> {
  const embedding = embedder.open();
  await embedding.append(text);
  for (;;) {
    const features = await embedding.finish();
    if (features !== undefined) return features;
  }
}
