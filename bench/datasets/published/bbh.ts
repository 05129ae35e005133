import { type DataSet, optionLetter, type RowPlace, rowText } from "../data_set.ts";
import sample from "../samples/bbh.jsonl" with { type: "text" };

/** The tasks of BBH; each is a file. */
const BBH_TASKS = [
  "boolean_expressions",
  "causal_judgement",
  "date_understanding",
  "disambiguation_qa",
  "dyck_languages",
  "formal_fallacies",
  "geometric_shapes",
  "hyperbaton",
  "logical_deduction_five_objects",
  "logical_deduction_seven_objects",
  "logical_deduction_three_objects",
  "movie_recommendation",
  "multistep_arithmetic_two",
  "navigate",
  "object_counting",
  "penguins_in_a_table",
  "reasoning_about_colored_objects",
  "ruin_names",
  "salient_translation_error_detection",
  "snarks",
  "sports_understanding",
  "temporal_sequences",
  "tracking_shuffled_objects_five_objects",
  "tracking_shuffled_objects_seven_objects",
  "tracking_shuffled_objects_three_objects",
  "web_of_lies",
  "word_sorting",
];
const NUMERIC = ["multistep_arithmetic_two", "object_counting"];

/** BIG-Bench Hard (Suzgun et al., 2022): 27 tasks, whose answers are letters, words, numbers or brackets. */
export const BBH: DataSet = {
  name: "bbh",
  title: "BBH",
  hub: "lukaemon/bbh",
  revision: "982bb89fd79532a8ac676a61fc42eb1aeec63f99",
  files: BBH_TASKS.map((task) => ({ path: `${task}/test-00000-of-00001.parquet` })),
  count: 6511,
  licence: "MIT (source)",
  sample: { file: "bbh.jsonl", text: sample },
  read(row, place) {
    const task = row["task"] === undefined ? taskOf(place) : rowText(row, "task");
    const question = rowText(row, "input");
    const target = rowText(row, "target").trim();
    const about = { id: `${task}/${place.index}`, question, subject: task };
    const letter = /^\(([A-Z])\)$/.exec(target)?.[1];
    const options = [...question.matchAll(/^\(([A-Z])\) ?(.*)$/gm)];
    if (letter !== undefined && options.every(([, name], index) => name === optionLetter(index))) {
      return {
        ...about,
        options: options.map(([, , text = ""]) => text.trim()),
        optionsInText: true,
        answer: letter,
        grader: "choice",
      };
    }
    // Three published targets are texts in place of letters: nothing is equal to them, as in other harnesses.
    return { ...about, answer: target, grader: NUMERIC.includes(task) ? "number" : "exact" };
  },
};

/** `word_sorting/test-….parquet`, as on the Hub, or `word_sorting.json`, as on GitHub. */
function taskOf({ file }: RowPlace): string {
  const names = file.split("/").map((part) => part.replace(/\.\w+$/, ""));
  return names.findLast((name) => BBH_TASKS.includes(name)) ?? names.at(-1)!;
}
