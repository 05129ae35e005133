import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { median } from "../measure.ts";
import { type BenchScorer, type Cost, costOf } from "./bench_scorer.ts";
import type { OnnxRuntime, Tensor } from "../../../ml/onnx/runtime.ts";
import type { EmbeddingTokenizer } from "../../../scorer/embedders/embedding_tokenizer.ts";
import { STEP_TOKENS } from "../../../scorer/embedders/onnx_answer.ts";
import { FeatureSum } from "../../../scorer/onnx/feature_sum.ts";
import type { SimilarityGraphs } from "../../../scorer/onnx/similarity_graphs.ts";

export interface SteppingOptions {
  readonly clock: Clock;
  readonly runtime: OnnxRuntime;
  readonly path: string;
  readonly threads: number;
  readonly scorer: BenchScorer;
  readonly tokenizer: EmbeddingTokenizer;
  readonly text: string;
  readonly rounds: number;
}

/** The same tokens through the scorer and through sessions that are run by hand, in turns. */
export async function stepping(
  options: SteppingOptions,
): Promise<{ bare: Cost; whole: Cost; scored: Cost }> {
  const { clock, runtime, path, threads, scorer, tokenizer, text, rounds } = options;
  const answer = tokenizer.open();
  answer.append(text);
  const ids = [...answer.complete(), tokenizer.endId];
  const session = await runtime.open(path, threads);
  const past = session.inputNames.filter((name) => name.startsWith("past"));
  const presents = past.map((name) => name.replace("past_key_values", "present"));
  const run = async (step: number) => {
    let cache: Record<string, Tensor> = {};
    for (const name of past) cache[name] = runtime.float32(new Float32Array(0), [1, 8, 0, 128]);
    for (let at = 0; at < ids.length; at += step) {
      const piece = ids.slice(at, at + step);
      const shape = [1, piece.length];
      const feeds = {
        input_ids: runtime.integers("int64", piece, shape),
        attention_mask: runtime.integers("int64", new Array<number>(at + piece.length).fill(1), [
          1,
          at + piece.length,
        ]),
        position_ids: runtime.integers("int64", piece.map((_, index) => at + index), shape),
        ...cache,
      };
      const last = at + step >= ids.length;
      const results = await session.run(
        feeds,
        last ? ["last_hidden_state"] : ["last_hidden_state", ...presents],
      );
      cache = {};
      for (const [index, name] of past.entries()) if (!last) cache[name] = results[presents[index]!]!;
    }
  };
  const measures: Record<"bare" | "whole" | "scored", () => Promise<void>> = {
    bare: () => run(STEP_TOKENS),
    whole: () => run(ids.length),
    scored: () => scorer.embed(text),
  };
  const costs: Record<keyof typeof measures, Cost[]> = { bare: [], whole: [], scored: [] };
  for (let round = 0; round <= rounds; round++) {
    for (const name of ["bare", "scored", "whole"] as const) {
      const cost = await costOf(clock, measures[name]);
      if (round > 0) costs[name].push(cost);
    }
  }
  await session.release();
  const middle = (of: readonly Cost[]): Cost => ({
    ms: median(of.map((cost) => cost.ms)),
    cpuMs: median(of.map((cost) => cost.cpuMs)),
  });
  return { bare: middle(costs.bare), whole: middle(costs.whole), scored: middle(costs.scored) };
}

/** Time at an answer's end, when most of its rows are summed up, and time of a comparison; the least of ten, in ms. */
export async function similarityCost(
  clock: Clock,
  graphs: SimilarityGraphs,
  rows: number,
  dimensions: number,
): Promise<{ answerMs: number; pairMs: number }> {
  const random = new Random("rows");
  const features = Float32Array.from({ length: rows * dimensions }, () => random.normal());
  const [answers, pairs]: [number[], number[]] = [[], []];
  for (let round = 0; round < 10; round++) {
    const sum = new FeatureSum(graphs, dimensions);
    for (let at = 0; at < features.length; at += STEP_TOKENS * dimensions) {
      await sum.add(features.slice(at, at + STEP_TOKENS * dimensions));
    }
    const startMs = clock.now();
    const { correlation } = await sum.correlation();
    const endMs = clock.now();
    await graphs.product(correlation, correlation);
    answers.push(endMs - startMs);
    pairs.push(clock.now() - endMs);
  }
  return { answerMs: Math.min(...answers), pairMs: Math.min(...pairs) };
}
