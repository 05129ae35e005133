import { usedShares } from "./answer_path.ts";
import { type ModelWork, workOfAll } from "./answer_work.ts";
import type { EvalRecord } from "./eval_record.ts";
import { meanKnown, type Spending } from "./spending.ts";

/** Means over answers of what a model did for one. */
export interface EvalModelFigures extends ModelWork {
  readonly model: string;
  /** Share of all tokens that were written. */
  readonly writtenShare: number;
  /** Of the model's agents the share whose text was used (the paper's Fig. 4(i)); null where no run is known. */
  readonly usedShare: number | null;
  /** Null where that of an answer is not known. */
  readonly gpuSeconds: number | null;
}

/** Figures of each model that worked for these answers, `spent` being what each cost; none where it is not told of all. */
export function modelFigures(
  records: readonly EvalRecord[],
  spent: readonly Spending[],
): EvalModelFigures[] {
  const work = workOfAll(records.map(({ work }) => work));
  if (work === undefined) return [];
  const used = usedShares(records.flatMap(({ run }) => run ?? []));
  const written = Object.values(work.models).reduce((sum, one) => sum + one.completionTokens, 0);
  const mean = (sum: number) => sum / records.length;
  return Object.entries(work.models).map(([model, own]) => ({
    model,
    calls: mean(own.calls),
    promptTokens: mean(own.promptTokens),
    cachedTokens: own.cachedTokens === null ? null : mean(own.cachedTokens),
    completionTokens: mean(own.completionTokens),
    writtenShare: own.completionTokens / written,
    usedShare: used.get(model) ?? null,
    gpuSeconds: meanKnown(
      spent.map(({ gpuSeconds, gpuSecondsOf }) => gpuSeconds === null ? null : gpuSecondsOf.get(model) ?? 0),
    ),
  }));
}
