import { diversityOf } from "../../../bench/evaluation/diversity/diversity.ts";
import { countedRecords } from "../../../bench/evaluation/eval_figures.ts";
import type { EvalRecord, EvalSet } from "../../../bench/evaluation/eval_record.ts";
import type { ReportedDiversity } from "../../../bench/report/eval/diversity_tables.ts";
import { scorerSchema } from "../../../cfgs/schema/scorer.ts";
import type { Io } from "../../kit/io.ts";
import { makeScorer } from "../../kit/router/make_early_exit.ts";

/**
 * How unlike answers to open-ended prompts are; undefined where there are no such prompts. Rejects with 500
 * `weights_unavailable` where the model of `--embedder onnx` is not there.
 */
export async function openEndedDiversity(
  { records, sets, modes }: {
    readonly records: readonly EvalRecord[];
    readonly sets: readonly EvalSet[];
    readonly modes: readonly string[];
  },
  { embedder = "lexical" }: { readonly embedder?: string | undefined },
  io: Io,
): Promise<ReportedDiversity | undefined> {
  const open = new Set(
    sets.flatMap(({ name, questions }) =>
      questions.filter(({ grader }) => grader === "open").map(({ id }) => `${name}\0${id}`)
    ),
  );
  const answers = countedRecords(records).filter(({ set, question }) => open.has(`${set}\0${question}`));
  if (answers.length === 0) return undefined;
  const scorer = await makeScorer(scorerSchema.parse({ embedder }), io);
  try {
    const model = scorer.facts?.model;
    return {
      ...await diversityOf(answers, modes, scorer),
      embedder: model === undefined
        ? "lexical, which knows words but not their meaning (--embedder onnx does)"
        : `${embedder}, ${model}`,
    };
  } finally {
    await scorer.close();
  }
}
