import { type DataSet, RowError, rowText } from "../data_set.ts";
import sample from "../samples/gsm8k.jsonl" with { type: "text" };

/** GSM8K (Cobbe et al., 2021): word problems whose answer is a whole number. */
export const GSM8K: DataSet = {
  name: "gsm8k",
  title: "GSM8K",
  hub: "openai/gsm8k",
  revision: "740312add88f781978c0658806c59bc2815b9866",
  files: [{
    path: "main/test-00000-of-00001.parquet",
    sha256: "ee7b8da9e381df27b9e3f7758a159ab2bdaa4dbaa910546cbbc47e0cb44e4f59",
  }],
  count: 1319,
  licence: "MIT",
  sample: { file: "gsm8k.jsonl", text: sample },
  read(row, { index }) {
    const answer = /#### (-?[\d,]+)\s*$/.exec(rowText(row, "answer"))?.[1];
    if (answer === undefined) throw new RowError('its answer does not end with "#### " and a number');
    return { id: String(index), question: rowText(row, "question"), answer, grader: "number" };
  },
};
