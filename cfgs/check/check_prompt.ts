import { didYouMean, quoteList } from "../../base/nearest.ts";
import type { PromptConfig } from "../schema/config.ts";
import { formatPath } from "../schema/config_path.ts";
import type { ConfigFinding } from "../schema/explain.ts";
import type { ExpandedAgent } from "../topology/expanded_graph.ts";

/** Placeholders of a prompt template. */
export interface PromptNeeds {
  /** True when it has `[responses]`. */
  readonly responses: boolean;
  /** True when the question gets in: by `[input_prompts]`, or as the conversation itself. */
  readonly question: boolean;
  /** Agents named by `<|answer:ID|>`. */
  readonly answers: readonly string[];
}

/** Reads the placeholders of a template. */
export function promptNeeds(prompt: PromptConfig): PromptNeeds {
  const texts = typeof prompt === "string"
    ? [prompt]
    : "text" in prompt
    ? [prompt.text]
    : [prompt.system ?? "", prompt.user ?? prompt.append ?? ""];
  const all = texts.join("\n");
  const keepsConversation = typeof prompt !== "string" && !("text" in prompt) && prompt.user === undefined;
  return {
    responses: all.includes("[responses]"),
    question: keepsConversation || all.includes("[input_prompts]"),
    answers: texts.flatMap((text) => [...text.matchAll(/<\|answer:(.+?)\|>/g)].map((match) => match[1]!)),
  };
}

/** Checks that an agent's prompt and its precursors fit together; `reads` are the precursors' ids. */
export function checkPrompt(
  agent: ExpandedAgent,
  prompt: PromptConfig,
  reads: readonly string[],
): ConfigFinding[] {
  const needs = promptNeeds(prompt);
  const name = agent.config.prompt;
  const findings: ConfigFinding[] = [];
  const add = (severity: "error" | "warning", value: unknown, what: string) => {
    const subject = `${formatPath(agent.path)} has the prompt "${name}"`;
    const message = `${subject}${what}`;
    findings.push({ severity, path: agent.path, atKey: false, value, message });
  };
  for (const id of new Set(needs.answers)) {
    if (reads.includes(id)) continue;
    const known = reads.length === 0 ? "it reads nobody" : `it reads ${quoteList(reads)}`;
    add(
      "error",
      id,
      `, whose slot <|answer:${id}|> nobody fills for agent ${agent.id}: ${known}${didYouMean(id, reads)}`,
    );
  }
  if (needs.responses && reads.length === 0) {
    add("error", name, `, which has [responses], but agent ${agent.id} reads nobody`);
  }
  if (!needs.responses && needs.answers.length === 0 && reads.length > 0) {
    add(
      "warning",
      name,
      `, which has neither [responses] nor a slot: agent ${agent.id} will not see what it reads`,
    );
  }
  if (!needs.question) {
    add("warning", name, `, which has no [input_prompts]: agent ${agent.id} will not see the question`);
  }
  return findings;
}
