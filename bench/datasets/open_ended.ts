import { type LoadedSet, loadSample } from "./load_questions.ts";
import { ownQuestion } from "./own_questions.ts";
import text from "./samples/open-ended.jsonl" with { type: "text" };

/** Name of Canopy's own prompts that have no right answer: of their answers only is counted how unlike they are. */
export const OPEN_ENDED = "open-ended";

/** The prompts. */
export async function loadOpenEnded(seed: string): Promise<LoadedSet> {
  const sample = { file: "open-ended.jsonl", text };
  const set = await loadSample({ name: OPEN_ENDED, title: OPEN_ENDED, sample, read: ownQuestion }, seed);
  return { ...set, label: `Open-ended prompts (${set.questions.length}, by Canopy)` };
}
