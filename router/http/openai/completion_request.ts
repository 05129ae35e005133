import { badRequest } from "../../../base/errors.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import { fieldError, isSet, shown } from "../gate/fields.ts";
import { textOfIds } from "../../../ml/tokenizers/tokenise.ts";
import { readBudget } from "./run_reach.ts";
import { commonPlan, type CompletionPlan, requireLogprobs, type RunTarget, splitStops } from "./plan.ts";
import { type CompletionRequest, completionRequestSchema, MAX_PROMPTS } from "./request_schema.ts";
import { readSampling } from "./sampling.ts";
import { contextTokensOf } from "../../moa/prompt/run_prompts.ts";

/** Reads a completions request to a virtual model. Throws 400 naming the field at fault. */
export async function readCompletion(
  body: JsonObject,
  target: RunTarget,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<CompletionPlan> {
  const parsed = completionRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  refuseOthers(request, body);
  const logprobs = typeof request.logprobs === "number" ? request.logprobs : undefined;
  if (logprobs !== undefined) requireLogprobs(target);
  const common = commonPlan(request, body, target);
  const prompts: string[] = [];
  for (const prompt of readPrompts(body["prompt"], (ids, name) => ({ ids, name }))) {
    prompts.push(typeof prompt === "string" ? prompt : await decode(prompt, target, signal));
  }
  const { sampling, ownStops } = splitStops(readSampling(request, body), target);
  return {
    ...common,
    inputs: prompts.map((text) => ({
      question: { kind: "text", text },
      rootSampling: sampling,
      rootLogprobs: logprobs,
      choices: common.choices,
      root: common.root,
      budget: readBudget(request),
      whole: !common.stream && ownStops.length === 0,
      headers,
    })),
    logprobs: logprobs !== undefined,
    ownStops,
    echo: request.echo === true ? prompts : undefined,
  };
}

function refuseOthers(request: CompletionRequest, body: JsonObject): void {
  if (isSet(request.suffix) && request.suffix !== "") {
    throw badRequest("suffix", "suffix is not supported: a virtual model does not fill in the middle");
  }
  if (isSet(request.best_of) && request.best_of !== (request.n ?? 1)) {
    throw badRequest(
      "best_of",
      `best_of must equal n: current values are ${request.best_of} and ${request.n ?? 1}`,
    );
  }
  if (request.echo === true && typeof request.logprobs === "number") {
    throw badRequest(
      "echo",
      "echo cannot be combined with logprobs: a virtual model has no single prompt whose tokens could be scored; " +
        "ask an engine model for log-likelihoods",
      "unsupported_parameter",
    );
  }
  for (const name of ["messages", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs"]) {
    if (isSet(body[name]) && body[name] !== false) {
      throw badRequest(
        name,
        `${name} belongs to /v1/chat/completions: leave it out of a completions request`,
      );
    }
  }
}

/** The prompts of a request, one or several; `readIds` is called for those that are token ids. */
export function readPrompts<Ids>(
  prompt: Json | undefined,
  readIds: (ids: readonly Json[], name: string) => Ids,
): (string | Ids)[] {
  const rule = "prompt must be a text, a list of texts, a list of token ids, or a list of such lists";
  if (prompt === undefined || prompt === null) {
    throw badRequest("prompt", `prompt is required: ${rule}`, "missing_field");
  }
  if (typeof prompt === "string") return [readText(prompt, "prompt")];
  if (!Array.isArray(prompt)) throw badRequest("prompt", `${rule}: current value is ${shown(prompt)}`);
  const first = prompt[0];
  if (first === undefined) throw badRequest("prompt", "prompt must not be an empty list");
  if (typeof first === "number") return [readIds(prompt, "prompt")];
  if (prompt.length > MAX_PROMPTS) {
    throw badRequest("prompt", `prompt may hold at most ${MAX_PROMPTS} prompts: it holds ${prompt.length}`);
  }
  return prompt.map((one, at) => {
    const name = `prompt[${at}]`;
    if (typeof one !== typeof first || (!Array.isArray(one) && typeof one !== "string")) {
      throw badRequest(name, `${rule}: ${name} is ${shown(one)}`);
    }
    return typeof one === "string" ? readText(one, name) : readIds(one, name);
  });
}

function readText(text: string, name: string): string {
  if (text === "") throw badRequest(name, `${name} must not be empty`);
  return text;
}

/** The text of token ids, by the tokenizer of the root's model; of many from a thread. */
function decode(
  { ids, name }: { readonly ids: readonly Json[]; readonly name: string },
  { graph, root }: RunTarget,
  signal: AbortSignal,
): string | Promise<string> {
  const tokenizer = root?.tokenizer;
  if (root === undefined || tokenizer === undefined) {
    throw badRequest(
      name,
      `${name} holds token ids, and the tokenizer of ${graph.root.model}, the root of ` +
        `${graph.name}, is not known here: send text`,
      "unsupported_parameter",
    );
  }
  const contextTokens = contextTokensOf(root) ?? Infinity;
  if (ids.length > contextTokens) {
    throw badRequest(
      name,
      `${name} has ${ids.length} token ids, and the context of ${graph.root.model}, the root of ${graph.name}, ` +
        `holds ${contextTokens}: shorten ${name}`,
      "context_length_exceeded",
    );
  }
  return textOfIds(checkIds(ids, name, tokenizer.vocabSize), tokenizer, signal);
}

/** Token ids of the field `name`. Throws 400 when there are none, or one is not in the vocabulary. */
export function checkIds(ids: readonly Json[], name: string, vocabSize: number): number[] {
  if (ids.length === 0) throw badRequest(name, `${name} must not be an empty list`);
  return ids.map((id, at) => {
    if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < vocabSize) return id;
    throw badRequest(
      `${name}[${at}]`,
      `${name}[${at}] must be a token id from 0 to ${vocabSize - 1}: current value is ${shown(id)}`,
    );
  });
}
