import type { TokenEnds } from "../../../ml/tokenizers/long_texts.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import { textOfIds } from "../../../ml/tokenizers/tokenise.ts";
import type { AgentAnswer } from "./answer.ts";

/** One answer that was cut, in tokens of the model that reads it. */
export interface CutAnswer {
  readonly agent: string;
  readonly tokens: number;
  /** Tokens left of it, the note about the gap not counted. */
  readonly kept: number;
}

/** Tokens of the note that stands where a text was cut, at most. */
const NOTE_TOKENS = 24;

/**
 * Cuts answers from their middle until they take at most about `budgetTokens` together. All are cut to the same length,
 * and those that are shorter stay whole; how an answer ends is kept as well as how it begins. `known`: their tokens; of
 * an answer with more no more is kept than is given of it. Depends on nothing but the texts, so that a prompt is cut the
 * same way however it was prefilled.
 */
export async function cutAnswers(
  answers: readonly AgentAnswer[],
  known: readonly TokenEnds[],
  { budgetTokens, tokenizer }: { readonly budgetTokens: number; readonly tokenizer: ModelTokenizer },
): Promise<{ readonly answers: readonly AgentAnswer[]; readonly cuts: readonly CutAnswer[] }> {
  const level = levelOf(known.map(({ tokens }) => tokens), budgetTokens);
  const cuts: CutAnswer[] = [];
  const shortened = await Promise.all(answers.map(async (answer, index) => {
    const own = known[index]!;
    if (own.tokens <= level) return answer;
    const kept = Math.min(Math.max(0, level - NOTE_TOKENS), own.ids.length);
    cuts.push({ agent: answer.agent, tokens: own.tokens, kept });
    return { ...answer, text: await middleCut(answer.text, own, kept, tokenizer) };
  }));
  return { answers: shortened, cuts };
}

/** The length to which texts are cut so that their sum is the budget: long ones give up what short ones do not take. */
function levelOf(lengths: readonly number[], budget: number): number {
  let left = budget;
  const rising = [...lengths].sort((a, b) => a - b);
  for (const [index, length] of rising.entries()) {
    const share = Math.floor(left / (rising.length - index));
    if (length > share) return share;
    left -= length;
  }
  return Infinity;
}

async function middleCut(
  text: string,
  { ids, tokens }: TokenEnds,
  kept: number,
  tokenizer: ModelTokenizer,
): Promise<string> {
  const head = Math.ceil(kept / 2);
  const note = `[${tokens - kept} tokens left out]`;
  // Lengths, not texts: decoding may give other spaces, and half a character at the edge.
  const headLength = (await textOfIds(ids.slice(0, head), tokenizer)).length;
  const tailLength = kept === head ? 0 : (await textOfIds(ids.slice(head - kept), tokenizer)).length;
  const begin = whole(text.slice(0, headLength), "end").trimEnd();
  const end = whole(text.slice(text.length - Math.min(tailLength, text.length - headLength)), "start")
    .trimStart();
  return [begin, note, end].filter((part) => part !== "").join("\n\n");
}

/** A text without half a surrogate pair at its edge. */
function whole(text: string, edge: "start" | "end"): string {
  return edge === "end" ? text.replace(/[\ud800-\udbff]$/, "") : text.replace(/^[\udc00-\udfff]/, "");
}
