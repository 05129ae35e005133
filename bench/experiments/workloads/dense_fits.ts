import { CanopyError } from "../../../base/errors.ts";
import { costModel } from "../../../simulator/engine/cost.ts";
import type { AgentPlace } from "../graphs.ts";
import type { ModelCosts, Serving } from "../world.ts";
import type { BenchWorkload } from "./workload_file.ts";

/** Aggregators of the dense graph that share the GPU of the largest model. */
const SHARING = 3;

/**
 * Throws 400 `workload_too_long` where the dense graph cannot be played: its aggregators read nine answers, and those of
 * the largest model do not fit its GPU's memory together, so that a decode GPU of a pair keeps prompts waiting until
 * they fail.
 */
export function checkDenseFits(
  workload: BenchWorkload,
  questions: readonly { readonly answerTokens: (place: AgentPlace) => number }[],
  { serving, costs }: { readonly serving: Serving; readonly costs?: ModelCosts | undefined },
): void {
  const { kvTokens } = costModel(costs?.["32b"] ?? "32b");
  // One GPU for both keeps a prompt that three share once.
  const copies = serving === "sglang-pd" ? SHARING : 1;
  for (const [at, { answerTokens }] of questions.entries()) {
    const read = [0, 1, 2].flatMap((cluster) =>
      (["4b", "8b", "32b"] as const).map((model, member) =>
        answerTokens({ layer: 0, index: 3 * cluster + member, model })
      )
    ).reduce((sum, tokens) => sum + tokens, 0);
    const own = [2, 5, 8].map((index) => answerTokens({ layer: 1, index, model: "32b" }));
    const needed = copies * read + own.reduce((sum, tokens) => sum + tokens, 0);
    if (needed <= kvTokens) continue;
    throw new CanopyError(
      `Workload ${workload.name} cannot be played in the dense graph: question ${
        at + 1
      } needs ${needed} tokens of ` +
        `the ${kvTokens} that fit the memory of the 32b GPU; lower max_tokens in a file of yours, or let ` +
        `"canopy bench sensitivity --workload ${workload.name}" cost it`,
      { code: "workload_too_long", status: 400 },
    );
  }
}
