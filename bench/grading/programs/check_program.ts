import { isJsonObject } from "../../../base/json.ts";
import type { ProgramTask } from "./program_task.ts";
import { closeValues, equalValues, floatOf, isFloats, partsOf, type PythonValue } from "./python_value.ts";
import type { Sandbox } from "./sandbox.ts";

/** EvalPlus's limits: for an input, at least; as a multiple of the time of the task's own solution; for all inputs. */
const SECONDS_EACH = 4;
const TIMES_OWN = 4;
const SECONDS_IN_ALL = 60;
/** For the start of Python. */
const START_SECONDS = 10;
/** For all inputs of the task's own solution. */
const OWN_SECONDS = 300;

/** HumanEval/32 has as many right answers as a polynomial has zeros. */
const POLYNOMIAL = `
import math

def f(factors, at):
    return sum([factor * math.pow(at, power) for power, factor in enumerate(factors)])
`;

/** Whether a program passes; `base` is null where the task does not say which tests are HumanEval's own. */
export interface ProgramVerdict {
  readonly base: boolean | null;
  /** All tests. */
  readonly plus: boolean;
}

/** What the task's own solution gives. */
export interface RightValues {
  readonly base: number | null;
  readonly values: readonly PythonValue[];
  readonly limits: readonly number[];
  /** Seconds of the whole run: to write down a million numbers takes longer than to compute them. */
  readonly total: number;
  /** Inputs of HumanEval/32, of which every root is right. */
  readonly given: readonly PythonValue[] | undefined;
}

/** Runs the task's own solution. Throws an error that says why there are no right values. */
export async function rightValues(task: ProgramTask, sandbox: Sandbox): Promise<RightValues> {
  const { line, test, entry } = task;
  const lines = await sandbox.run(
    { code: task.solution, entry, reference: true, line, test, limits: null },
    OWN_SECONDS,
  );
  const run = readRun(lines);
  if (run.failure !== undefined) throw new Error(`the task's own solution does not run: ${run.failure}`);
  if (run.values.length < run.count || run.values.includes(undefined)) {
    throw new Error("the task's own solution fails, or does not come to an end");
  }
  return {
    base: run.base,
    values: run.values.filter((value) => value !== undefined),
    limits: run.seconds.map((seconds) => Math.max(SECONDS_EACH, TIMES_OWN * seconds)),
    total: run.total,
    given: entry === "find_zero" ? run.given : undefined,
  };
}

/** Runs a program on the task's inputs, and compares what it gives: it never sees what is right. */
export async function checkProgram(
  code: string,
  { task, right, sandbox }: {
    readonly task: ProgramTask;
    readonly right: RightValues;
    readonly sandbox: Sandbox;
  },
): Promise<ProgramVerdict> {
  const { line, test, entry, tolerance } = task;
  const all = Math.min(SECONDS_IN_ALL, right.limits.reduce((sum, seconds) => sum + seconds, 0));
  const request = { code, entry, reference: false, line, test, limits: right.limits };
  const { values } = readRun(
    await sandbox.run(request, Math.max(all, TIMES_OWN * right.total) + START_SECONDS),
  );
  const roots = right.given && await polynomials(right.given, values, sandbox);
  const passes = (from: number, to: number) => {
    // EvalPlus raises it at the first float, for the inputs behind it too.
    let allowed = tolerance;
    for (let index = from; index < to; index++) {
      const [value, wanted] = [values[index], right.values[index]!];
      if (value === undefined) return false;
      if (roots !== undefined) {
        if (!(Math.abs(roots[index]!) <= tolerance)) return false;
        continue;
      }
      if (allowed === 0 && isFloats(wanted)) allowed = 1e-6;
      if (!equalValues(value, wanted) && !(allowed !== 0 && closeValues(value, wanted, allowed))) {
        return false;
      }
    }
    return true;
  };
  const base = right.base === null ? null : passes(0, right.base);
  return { base, plus: base !== false && passes(right.base ?? 0, right.values.length) };
}

/** Values of polynomials, the only arguments, at numbers: computed by Python, as other powers round otherwise. */
async function polynomials(
  given: readonly PythonValue[],
  at: readonly (PythonValue | undefined)[],
  sandbox: Sandbox,
): Promise<number[]> {
  const inputs = given.map((one, index) => {
    const factors = partsOf(partsOf(one)[0] ?? ["none"]).map(numberText);
    return `[[${factors.join(", ")}], ${numberText(at[index] ?? ["none"])}]`;
  });
  const request = { code: POLYNOMIAL, entry: "f", reference: true, line: null, limits: null };
  const lines = await sandbox.run({ ...request, test: `inputs = [${inputs.join(", ")}]` }, OWN_SECONDS);
  const { values } = readRun(lines);
  return given.map((_, index) => floatOf(values[index] ?? ["none"]));
}

/** A number as Python reads it; None for others, with which it does not compute. */
function numberText(value: PythonValue): string {
  return Number.isFinite(floatOf(value)) && value[0] !== "none" ? String(value[1]) : "None";
}

interface ProgramRun {
  readonly count: number;
  readonly base: number | null;
  /** By input; undefined where it failed. */
  readonly values: (PythonValue | undefined)[];
  readonly seconds: number[];
  readonly given: PythonValue[];
  readonly total: number;
  readonly failure: string | undefined;
}

/** Reads what a run has written; a program may write what it likes there, which helps it to nothing but other values. */
function readRun(lines: readonly string[]): ProgramRun {
  let [count, base, failure]: [number, number | null, string | undefined] = [0, null, undefined];
  let total = 0;
  const [values, seconds, given]: [ProgramRun["values"], number[], PythonValue[]] = [[], [], []];
  for (const text of lines) {
    const line = parsed(text);
    if (typeof line["failure"] === "string") failure = line["failure"];
    if (typeof line["total"] === "number") total = line["total"];
    if (typeof line["count"] === "number") {
      [count, base] = [line["count"], typeof line["base"] === "number" ? line["base"] : null];
    }
    const { index } = line;
    if (typeof index !== "number") continue;
    values[index] = isValue(line["value"]) ? line["value"] : undefined;
    seconds[index] = typeof line["seconds"] === "number" ? line["seconds"] : 0;
    if (isValue(line["given"])) given[index] = line["given"];
  }
  return { count, base, values: Array.from(values), seconds, given, total, failure };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const line: unknown = JSON.parse(text);
    return isJsonObject(line) ? line : {};
  } catch {
    return {};
  }
}

const TEXT_KINDS = new Set(["bool", "int", "float", "str", "long", "other"]);

function isValue(value: unknown): value is PythonValue {
  if (!Array.isArray(value)) return false;
  const [kind, first, second]: unknown[] = value;
  if (kind === "none") return true;
  if (kind === "int" || kind === "bool") return typeof first === "string" && /^-?\d+$/u.test(first);
  if (typeof kind === "string" && TEXT_KINDS.has(kind)) return typeof first === "string";
  if (kind === "complex") return typeof first === "string" && typeof second === "string";
  if (kind === "dict") {
    return Array.isArray(first) &&
      first.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isValue));
  }
  return (kind === "list" || kind === "tuple" || kind === "set") && Array.isArray(first) &&
    first.every(isValue);
}
