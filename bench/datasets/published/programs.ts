import { type DataSet, type Row, RowError, rowText, rowTexts } from "../data_set.ts";
import humanEvalSample from "../samples/humanevalplus.jsonl" with { type: "text" };
import ifbenchSample from "../samples/ifbench.jsonl" with { type: "text" };

/** IFBench (Pyatkin et al., 2025): instructions that a program checks. */
export const IFBENCH: DataSet = {
  name: "ifbench",
  title: "IFBench",
  hub: "allenai/IFBench_test",
  revision: "2e8a48de45ff3bf41242f927254ca81b59ca3ae2",
  files: [{ path: "data/train-00000-of-00001.parquet" }],
  count: 300,
  licence: "ODC-BY 1.0",
  sample: { file: "ifbench.jsonl", text: ifbenchSample },
  read(row) {
    const instructions = rowTexts(row, "instruction_id_list");
    return {
      id: rowText(row, "key"),
      question: rowText(row, "prompt"),
      answer: "",
      grader: "ifbench",
      subject: instructions[0],
      extra: { instructions, arguments: argumentsOf(row, instructions.length) },
    };
  },
};

/**
 * HumanEval+ (Liu et al., 2023): a function's head, and inputs on which a program must do what the task's own does. In
 * the form of the Hub, and in that of EvalPlus's release, which says which tests are HumanEval's own.
 */
export const HUMANEVAL_PLUS: DataSet = {
  name: "humanevalplus",
  title: "HumanEval+",
  hub: "evalplus/humanevalplus",
  revision: "d32357cf319e50e9c8d8dab5ea876c72b0fd321b",
  files: [{ path: "test.jsonl" }],
  count: 164,
  licence: "Apache-2.0",
  sample: { file: "humanevalplus.jsonl", text: humanEvalSample },
  read: (row, { line }) => {
    const isRelease = Array.isArray(row["plus_input"]);
    if (isRelease && line === undefined) throw new RowError("EvalPlus's release is read from JSONL only");
    const test = isRelease ? undefined : rowText(row, "test");
    if (test?.includes("inputs = ") === false) throw new RowError("its test has no inputs");
    return {
      id: rowText(row, "task_id"),
      question: rowText(row, "prompt"),
      answer: "",
      grader: "code",
      extra: {
        entryPoint: rowText(row, "entry_point"),
        solution: rowText(row, "canonical_solution"),
        tolerance: test === undefined ? Number(row["atol"]) : toleranceOf(test),
        test,
        line: isRelease ? line : undefined,
      },
    };
  },
};

/** How far numbers may be from the right ones, as the last line of a test says it. */
function toleranceOf(test: string): number {
  return Number(/(?:, |<= )([\d.e-]+)\)?\s*$/u.exec(test)?.[1] ?? 0);
}

/** The arguments of each checker, without those that are null. */
function argumentsOf(row: Row, count: number): Record<string, unknown>[] {
  const list = row["kwargs"];
  if (!Array.isArray(list) || list.length !== count) {
    throw new RowError("its kwargs and its instruction_id_list differ in length");
  }
  return list.map((one: unknown) => {
    if (typeof one !== "object" || one === null) throw new RowError("its kwargs are no objects");
    return Object.fromEntries(
      Object.entries(one).filter(([, value]) => value !== null && value !== undefined),
    );
  });
}
