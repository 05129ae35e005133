import { Random } from "../../../base/random.ts";
import { type DataSet, optionLetter, type Row, RowError, rowIndex, rowText, rowTexts } from "../data_set.ts";
import gpqaSample from "../samples/gpqa.csv" with { type: "text" };
import proxSample from "../samples/mmlu-prox-lite.jsonl" with { type: "text" };
import mmluSample from "../samples/mmlu.jsonl" with { type: "text" };

/** Most options of MMLU-ProX. */
const MAX_OPTIONS = 10;

/**
 * GPQA Diamond (Rein et al., 2023). The right option is always in a column of its own: the order is drawn for each
 * question from its id and the seed, so that every mode and every run sees the same letters.
 */
export const GPQA_DIAMOND: DataSet = {
  name: "gpqa-diamond",
  title: "GPQA Diamond",
  hub: "Idavidrein/gpqa",
  revision: "633f5ee89ab8ad4522a9f850766b73f62147ffdd",
  files: [{ path: "gpqa_diamond.csv" }],
  count: 198,
  licence: "CC BY 4.0; no example may be shown in plain text",
  gated: true,
  sample: { file: "gpqa.csv", text: gpqaSample },
  read(row, { seed }) {
    const id = rowText(row, "Record ID");
    const right = cleaned(rowText(row, "Correct Answer"));
    const wrong = [1, 2, 3].map((number) => cleaned(rowText(row, `Incorrect Answer ${number}`)));
    const options = new Random(`gpqa/${seed}/${id}`).shuffled([right, ...wrong]);
    return {
      id,
      question: rowText(row, "Question"),
      options,
      answer: optionLetter(options.indexOf(right)),
      grader: "choice",
      subject: rowText(row, "High-level domain"),
    };
  },
};

/** MMLU (Hendrycks et al., 2020), all 57 subjects of its test split. */
export const MMLU: DataSet = {
  name: "mmlu",
  title: "MMLU",
  hub: "cais/mmlu",
  revision: "c30699e8356da336a370243923dbaf21066bb9fe",
  files: [{
    path: "all/test-00000-of-00001.parquet",
    sha256: "74a41822ce7d3def56e1682f958469c04642a5336a5ce912fa375fdb90fb25d7",
  }],
  count: 14_042,
  licence: "MIT",
  columns: ["question", "choice0", "choice1", "choice2", "choice3", "answer"],
  sample: { file: "mmlu.jsonl", text: mmluSample },
  read(row, { file, index }) {
    const options = Array.isArray(row["choices"])
      ? rowTexts(row, "choices")
      : [0, 1, 2, 3].map((number) => rowText(row, `choice${number}`));
    if (options.length !== 4) throw new RowError(`it has ${options.length} choices`);
    // The first files, one for each subject, have no column for it.
    const subject = typeof row["subject"] === "string"
      ? row["subject"]
      : /([a-z_]+?)_(?:test|val|dev)\.csv$/.exec(file)?.[1];
    const answer = row["answer"];
    return {
      id: `${subject ?? "question"}/${index}`,
      question: rowText(row, "question"),
      options,
      answer: typeof answer === "string" && /^[A-D]$/.test(answer)
        ? answer
        : optionLetter(rowIndex(row, "answer", options.length)),
      grader: "choice",
      subject,
    };
  },
};

/** MMLU-ProX-Lite (Xuan et al., 2025), the English questions of its test split: up to ten options. */
export const MMLU_PROX_LITE: DataSet = {
  name: "mmlu-prox-lite",
  title: "MMLU-ProX-Lite (en)",
  hub: "li-lab/MMLU-ProX-Lite",
  revision: "e82aafb9460529687d3c7e51b401d8dd1dd309dd",
  files: [{ path: "en/test-00000-of-00001.parquet" }],
  count: 588,
  licence: "MIT",
  sample: { file: "mmlu-prox-lite.jsonl", text: proxSample },
  read(row) {
    const options = proxOptions(row);
    const index = rowIndex(row, "answer_index", options.length);
    const answer = rowText(row, "answer");
    if (answer !== optionLetter(index)) {
      throw new RowError(`its answer is ${answer}, and its answer_index is that of ${optionLetter(index)}`);
    }
    return {
      id: rowText(row, "question_id"),
      question: rowText(row, "question"),
      options,
      answer,
      grader: "choice",
      subject: rowText(row, "category"),
    };
  },
};

function proxOptions(row: Row): string[] {
  const all = Array.from({ length: MAX_OPTIONS }, (_, index) => row[`option_${index}`]);
  const options = all.filter((option) => typeof option === "string" && option !== "");
  // One row of the large set has a hole: letters behind it would be those of other options.
  if (all.slice(0, options.length).some((option, index) => option !== options[index])) {
    throw new RowError("an option is missing before others");
  }
  return options.map(String);
}

/** As lm-eval cleans options: without wiki titles' brackets and doubled blanks. */
function cleaned(option: string): string {
  return option.trim().replaceAll(" [title]", ". ").replaceAll("  ", " ");
}
