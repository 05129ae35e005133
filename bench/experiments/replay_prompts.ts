import { Random } from "../../base/random.ts";
import type { RecordedPrompt, ReplayAgent, ReplayRun } from "./recorded_graph.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { speechOf } from "../../simulator/text/tokenizer.ts";

/**
 * For each run the texts before the answers in its agents' prompts, by agent: as many tokens as the recorded prompt has
 * more than the answers in it. Where prompts were kept they begin alike as far as these did. Where they were not, the
 * prompts of a run's leaves begin alike as far as they reach, so do those of its other agents, and no two runs share
 * anything.
 */
export function replayPrompts(runs: readonly ReplayRun[], seed: string): ReadonlyMap<string, string>[] {
  const common = new Words(new Random(`${seed}/replay/common`));
  const first = runs[0]?.agents[0];
  return runs.map(({ agents }, index) => {
    const random = new Random(`${seed}/replay/${index}`);
    const groups = {
      leaves: new Words(random.stream("leaves")),
      readers: new Words(random.stream("readers")),
    };
    const byId = new Map(agents.map((agent) => [agent.id, agent]));
    const firsts = {
      leaves: agents.find(({ reads }) => reads.length === 0),
      readers: agents.find(({ reads }) => reads.length > 0),
    };
    return new Map(agents.map((agent) => {
      const kind = agent.reads.length === 0 ? "leaves" : "readers";
      const length = ownTokens(agent, byId);
      const inRun = Math.min(length, sharedTokens(agent, firsts[kind], length));
      const inAll = Math.min(inRun, first?.prompt === undefined ? 0 : sharedTokens(agent, first, 0));
      const own = new Words(random.stream(agent.id));
      const ids = [
        ...common.from(0, inAll),
        ...groups[kind].from(inAll, inRun),
        ...own.from(inRun, length),
      ];
      return [agent.id, builtinTokenizer().decode(ids)];
    }));
  });
}

/** Between two answers. */
const SEPARATOR_TOKENS = 1;

/** Tokens of a chat's markup around a message. */
function markupTokens(): number {
  const tokenizer = builtinTokenizer();
  return tokenizer.encode(tokenizer.renderChat([{ role: "user", content: "" }])).length;
}

/** Tokens of a prompt that are neither markup nor answers. */
function ownTokens({ promptTokens, reads }: ReplayAgent, byId: ReadonlyMap<string, ReplayAgent>): number {
  const answers = reads.reduce((sum, id) => {
    const { completionTokens, reasoningTokens } = byId.get(id)!;
    return sum + completionTokens - reasoningTokens + SEPARATOR_TOKENS;
  }, 0);
  return Math.max(1, promptTokens - markupTokens() - answers);
}

/** Tokens at the beginning that two recorded prompts have in common; `unknown` where one was not kept. */
function sharedTokens(
  { prompt, promptTokens }: ReplayAgent,
  other: ReplayAgent | undefined,
  unknown: number,
): number {
  if (prompt === undefined || other?.prompt === undefined) return unknown;
  const share = prompt.length === 0 ? 0 : commonLength(prompt, other.prompt) / prompt.length;
  return Math.floor(share * promptTokens);
}

function commonLength(one: RecordedPrompt, other: RecordedPrompt): number {
  if (typeof one !== typeof other) return 0;
  let length = 0;
  while (length < one.length && length < other.length && one[length] === other[length]) length++;
  return length;
}

/** Random words, each one token, that are the same whenever they are asked for. */
class Words {
  readonly #random: Random;
  readonly #ids: number[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  from(begin: number, end: number): readonly number[] {
    const { wordIds } = speechOf(builtinTokenizer());
    while (this.#ids.length < end) this.#ids.push(this.#random.pick(wordIds));
    return this.#ids.slice(begin, end);
  }
}
