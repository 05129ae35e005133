import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { runConsensusOf } from "../../../scorer/exit_policy_of.ts";
import type { FinalAnswer } from "../../../scorer/answers/final_answer.ts";
import { type AgentVote, voteGroups } from "../../../scorer/policy/run_consensus.ts";
import { learnQuestionKinds, type QuestionKind } from "../../../scorer/policy/vote_model.ts";
import { type ExitSettings, treeWithExit } from "../exit.ts";
import { dense991, type GraphSettings, placeSeed, tree931 } from "../graphs.ts";
import { type ScriptedExitQuestion, scriptedQuestions } from "../scripted_answers.ts";
import type { TopologyLayer } from "../topology/candidates.ts";
import type { ExitDecider, ExitRule } from "../topology/exit_rules.ts";
import { SIZES } from "../world.ts";
import type { BenchWorkload } from "../workloads/workload_file.ts";

/** One way to answer a question, costed and played. */
export interface SetRule {
  readonly name: string;
  readonly layers: readonly TopologyLayer[];
  readonly readsAhead: boolean;
  readonly exit: ExitRule;
  /** For the router; undefined for what no configuration can have. */
  readonly graph?: GraphSettings | undefined;
  /** True for a rule that looks at answers: chance is put beside it. */
  readonly reads: boolean;
}

/** Models of a layer, in turn. */
const inTurn = (count: number) => Array.from({ length: count }, (_, at): string => SIZES[at % SIZES.length]!);
const ROOT: TopologyLayer = { clusters: [["32b"]] };
const DENSE: readonly TopologyLayer[] = [{ clusters: [inTurn(9)] }, { clusters: [inTurn(9)] }, ROOT];
const TREE: readonly TopologyLayer[] = [
  { clusters: [inTurn(3), inTurn(3), inTurn(3)] },
  { clusters: [inTurn(3)] },
  ROOT,
];

const LEAVES = 9;
/** Questions, in no set, from which the posterior learns how often models are right. */
const LEARNING = 1_000;

/** `consensus` of the rules that are compared; `kinds`: what the posterior knows. */
function consensusRules(kinds: readonly QuestionKind[]): Readonly<Record<string, ExitSettings>> {
  const counts = [3, 4, 5, 6].map((agree): [string, ExitSettings] => [
    `${agree} of ${LEAVES} agree`,
    { agree },
  ]);
  const posteriors = [0.9, 0.95, 0.99].map((posterior): [string, ExitSettings] => [
    `posterior ${posterior}`,
    { posterior, difficulties: kinds },
  ]);
  const rules = [...counts, ...posteriors];
  const leaders = rules.slice(1).map(([name, rule]): [string, ExitSettings] => [
    `${name}, undecided: the leader`,
    { ...rule, undecided: "leader" },
  ]);
  return Object.fromEntries([...rules, ...leaders]);
}

/** All that is compared; dense #1 comes first, the whole tree #2 after it. */
export function setRules(kinds: readonly QuestionKind[]): SetRule[] {
  const runs = Object.entries(consensusRules(kinds)).map(([name, consensus]): SetRule => {
    const settings = { scope: "run", consensus };
    const policy = runConsensusOf(earlyExitSchema.parse(settings));
    const exit = decidedBy(name, (state) => policy.decide(state).agent);
    const graph = treeWithExit(settings, "completion");
    return { name, layers: TREE, readsAhead: true, exit, graph, reads: true };
  });
  const whole: ExitRule = { name: "none", settings: () => undefined, least: 0, decides: { kind: "never" } };
  return [
    { name: "#1 dense", layers: DENSE, readsAhead: false, exit: whole, graph: dense991(), reads: false },
    {
      name: "#2 tree",
      layers: TREE,
      readsAhead: false,
      exit: whole,
      graph: tree931({ mode: "off" }, "completion"),
      reads: false,
    },
    ...runs,
    {
      name: "the first answer, whatever it is",
      layers: TREE,
      readsAhead: true,
      exit: decidedBy("first", ({ votes }) => votes[0]?.agent),
      reads: false,
    },
  ];
}

/** No rule can do better: the run ends with the first right answer. */
export function oracleRule(questions: readonly Pick<ScriptedExitQuestion, "right">[]): SetRule {
  const exit = decidedBy("oracle", ({ votes }, number) => {
    const vote = votes.at(-1);
    return vote !== undefined && valueOf(vote.answer) === questions[number]?.right ? vote.agent : undefined;
  });
  return { name: "oracle: somebody is right", layers: TREE, readsAhead: true, exit, reads: false };
}

/** Each run ends after as many answers as it is dealt, whatever they say, with the most frequent one; undefined: it goes on. */
export function dealtRule({ name }: SetRule, dealt: readonly (number | undefined)[]): SetRule {
  const exit = decidedBy(`as many as ${name}`, ({ votes }, number) => {
    const most = dealt[number];
    return most === undefined || votes.length < most ? undefined : mostFrequent(votes)?.agent;
  });
  return { name: `as many answers as ${name}`, layers: TREE, readsAhead: true, exit, reads: false };
}

function decidedBy(name: string, ends: Extract<ExitDecider, { kind: "run" }>["ends"]): ExitRule {
  return { name, settings: () => undefined, least: 0, decides: { kind: "run", ends } };
}

function mostFrequent(votes: readonly AgentVote[]): AgentVote | undefined {
  return voteGroups(votes).reduce((best, group) => group.length > best.length ? group : best, [])[0];
}

function valueOf({ value }: FinalAnswer): string {
  return value.replace(/^number:/, "");
}

/** What the posterior knows: learned from the first answers of the models to questions with this seed. */
export function scriptedKinds(workload: BenchWorkload, seed: string): readonly QuestionKind[] {
  const known = scriptedQuestions(workload, LEARNING, seed).map(({ answerOf, right }) => {
    const groups = new Map<string, string[]>();
    for (const [index, model] of inTurn(LEAVES).entries()) {
      const answer = answerOf(model, placeSeed({ layer: 0, index }), []);
      groups.set(answer, [...groups.get(answer) ?? [], model]);
    }
    return { groups: [...groups.values()], right: [...groups.keys()].indexOf(right) };
  });
  // To three digits, as one would write them down.
  return learnQuestionKinds(known, 2).map(({ share, skills, coincidence }) => ({
    share: digits(share),
    skills: Object.fromEntries(Object.entries(skills).map(([model, skill]) => [model, digits(skill)])),
    coincidence: digits(coincidence),
  }));
}

function digits(value: number): number {
  return Math.round(1_000 * value) / 1_000;
}
