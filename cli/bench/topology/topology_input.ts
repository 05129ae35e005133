import { resolve } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import { readMode } from "../../../bench/evaluation/modes/eval_mode.ts";
import { type KeptRecords, readRecords } from "../../../bench/evaluation/read_records.ts";
import {
  AGREEMENT,
  type ScriptedExitQuestion,
  scriptedQuestions,
} from "../../../bench/experiments/scripted_answers.ts";
import type { CostedModel } from "../../../bench/experiments/topology/costed_topology.ts";
import {
  type RecordedAnswer,
  recordedQuestions,
  spokenRecords,
} from "../../../bench/experiments/topology/recorded_questions.ts";
import { arrivalsOf } from "../../../bench/experiments/workloads/question_arrivals.ts";
import { SIZES } from "../../../bench/experiments/world.ts";
import { costModel } from "../../../simulator/engine/cost.ts";
import { UsageError } from "../../kit/args.ts";
import type { Io } from "../../kit/io.ts";
import { modelCosts, sizeIn } from "../model_costs.ts";
import { workloadsOf } from "../workloads.ts";

/** What a search asks, and of whom. */
export interface TopologyInput {
  /** The workload, or the file of records. */
  readonly name: string;
  /** From the smallest to the largest. */
  readonly models: readonly CostedModel[];
  readonly questions: readonly ScriptedExitQuestion[];
  /** Those that are kept for what is recommended. */
  readonly fresh: readonly ScriptedExitQuestion[];
  /** Agents that a first layer may have at most. */
  readonly widest: number;
  readonly atOnce: number;
  /** Sentences on where answers come from. */
  readonly assumptions: readonly string[];
}

/** Values of the options that say what is asked. */
export interface TopologyInputValues {
  readonly workload: string | undefined;
  readonly answers: string | undefined;
  readonly cost: readonly string[];
  readonly model: readonly string[];
  readonly questions: number | undefined;
  readonly concurrency: number | undefined;
}

const DEFAULT_QUESTIONS = 400;
/** Of recorded questions, most that are kept for what is recommended. */
const FRESH_SHARE = 1 / 5;
const FEWEST_RECORDED = 20;

/** Scripted questions of a workload, or recorded ones. Throws `UsageError` for options that do not go together. */
export function topologyInput(
  values: TopologyInputValues,
  { seed, fresh }: { readonly seed: string; readonly fresh: number },
  io: Io,
): TopologyInput {
  if (values.answers !== undefined) {
    if (values.workload !== undefined) throw new UsageError("Option --answers goes without --workload");
    return recordedInput(values.answers, values, { seed, fresh }, io);
  }
  const [workload] = workloadsOf(values.workload === undefined ? [] : [values.workload], io, ["chat"]);
  if (workload === undefined) throw new UsageError("Option --workload needs a name or a file");
  const unknown = values.model.find((name) => !SIZES.some((size) => size === name));
  if (unknown !== undefined) {
    throw new UsageError(`Option --model must be one of ${SIZES.join(", ")}: current value is "${unknown}"`);
  }
  const arrivals = values.concurrency ?? arrivalsOf(workload, values.questions ?? DEFAULT_QUESTIONS);
  if (typeof arrivals !== "number") {
    throw new UsageError(
      `Workload ${workload.name} has questions that come at random, which are not costed: add --concurrency N`,
    );
  }
  const costs = modelCosts(values.cost, SIZES, io);
  return {
    name: workload.name,
    models: SIZES.filter((size) => values.model.length === 0 || values.model.includes(size))
      .map((name) => ({ name, cost: costs.get(name)?.cost ?? name })),
    questions: scriptedQuestions(workload, values.questions ?? DEFAULT_QUESTIONS, seed),
    fresh: scriptedQuestions(workload, fresh, `${seed}/fresh`),
    widest: Infinity,
    atOnce: arrivals,
    assumptions: [
      "Simulated: answers are scripted, so that who is right follows from assumed skills by model size; which graph is best for your models and questions follows from theirs (--answers)",
    ],
  };
}

function recordedInput(
  file: string,
  { cost, model, questions: most = Infinity, concurrency = 1 }: TopologyInputValues,
  { seed, fresh }: { readonly seed: string; readonly fresh: number },
  io: Io,
): TopologyInput {
  const read = readRecords(resolve(io.cwd, file));
  const answers = answersOf(read);
  const models = chosenModels(answers, { cost, model }, io);
  const { questions, repeats, left } = recordedQuestions(
    answers,
    models.map(({ name }) => name),
  );
  if (questions.length < FEWEST_RECORDED) {
    throw new CanopyError(
      `Cannot search with the answers of ${file}: ${questions.length} questions have ${repeats} answers of each of ` +
        `${models.map(({ name }) => name).join(", ")}, at least ${FEWEST_RECORDED} are needed` +
        (left === 0 ? "" : `; ${left} have fewer answers`),
      { code: "no_records", status: 400 },
    );
  }
  const random = new Random(`${seed}/recorded`);
  const drawn = questions.map((question) => ({ question, at: random.next() }))
    .sort((a, b) => a.at - b.at).map(({ question }) => question).slice(0, most);
  const kept = Math.min(fresh, Math.floor(FRESH_SHARE * drawn.length));
  return {
    name: file,
    models,
    questions: spokenRecords(drawn.slice(kept), seed),
    fresh: spokenRecords(drawn.slice(0, kept), seed),
    widest: repeats,
    atOnce: concurrency,
    assumptions: [
      `Answers: agents that read nobody give those that ${
        simulated(read) ? "simulated engines gave" : "models gave"
      } in ${file}, no two the same one (n = ${repeats} of each model to each question), graded as there; ` +
      `lengths are recorded, times are simulated`,
      `Assumed of all others, since nobody has recorded it: ${
        100 * AGREEMENT.follow
      } % follow the majority of what they read, the rest give an answer of their model alone; all write as much as their model did alone`,
      ...left === 0 ? [] : [
        `${left} questions are left out: some model has answered them less often, or an answer could not be checked`,
      ],
    ],
  };
}

/** Answers of models and graphs that were asked once at a time. */
function answersOf({ records }: KeptRecords): RecordedAnswer[] {
  return records.flatMap((record) => {
    const mode = readMode(record.mode);
    if (mode?.kind !== "once" || record.warmUp === true || (record.unchecked ?? null) !== null) return [];
    return [{
      question: `${record.set}/${record.question}`,
      model: mode.model,
      right: record.outcome === "right",
      stated: record.stated ?? undefined,
      promptTokens: record.promptTokens,
      completionTokens: record.completionTokens,
    }];
  });
}

/** Those that are asked for, by default those of which it is known what they take; the smallest first. */
function chosenModels(
  answers: readonly RecordedAnswer[],
  { cost, model }: Pick<TopologyInputValues, "cost" | "model">,
  io: Io,
): CostedModel[] {
  const recorded = [...new Set(answers.map((answer) => answer.model))].sort();
  const unknown = model.find((name) => !recorded.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`Option --model names "${unknown}", which is not recorded: ${recorded.join(", ")}`);
  }
  const named = cost.map((text) => text.slice(0, Math.max(0, text.lastIndexOf("="))));
  const known = recorded.filter((name) =>
    named.includes(name) || (model.length === 0 ? sizeIn(name) !== undefined : model.includes(name))
  );
  const costs = modelCosts(cost, known.length === 0 ? recorded : known, io);
  const stepMs = ({ cost }: CostedModel) =>
    costModel(cost).stepMs({
      prefillTokens: 0,
      prefillAttention: 0,
      decodes: 1,
      decodeContext: 0,
      sequences: 1,
    });
  return [...costs].map(([name, { cost }]): CostedModel => ({ name, cost }))
    .sort((a, b) => stepMs(a) - stepMs(b));
}

function simulated({ settings }: KeptRecords): boolean {
  const read = JSON.parse(settings) as Json;
  return isJsonObject(read) && read["simulated"] === true;
}
