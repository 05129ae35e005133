import assert from "node:assert/strict";
import { test } from "node:test";
import { promptNeeds } from "../../../cfgs/check/check_prompt.ts";
import { builtinPrompts, promptNamed } from "../../../cfgs/prompts/builtin.ts";
import { type PromptConfig, promptSchema } from "../../../cfgs/schema/config.ts";

test("The built-in prompts have the schema's shape, defaults included", () => {
  for (const [name, prompt] of Object.entries(builtinPrompts)) {
    assert.deepEqual(promptSchema.parse(prompt), prompt, name);
  }
});

test("Proposers get the conversation; the others get it and the responses, which end the user's message", () => {
  assert.deepEqual(Object.keys(builtinPrompts), ["propose", "aggregate", "synthesize", "rewrite"]);
  assert.deepEqual(promptNeeds(builtinPrompts["propose"]!), {
    responses: false,
    question: true,
    answers: [],
  });
  for (const name of ["aggregate", "synthesize", "rewrite"]) {
    const prompt: PromptConfig = builtinPrompts[name]!;
    assert.deepEqual(promptNeeds(prompt), { responses: true, question: true, answers: [] });
    assert.ok(typeof prompt === "object" && "append" in prompt);
    assert.match(prompt.append ?? "", /(Responses from models|Solutions):\n\[responses\]$/);
  }
});

test("A prompt of the config wins over the built-in one of the same name", () => {
  const config = { prompts: { propose: "Mine: [input_prompts]" } };
  assert.equal(promptNamed(config, "propose"), "Mine: [input_prompts]");
  assert.equal(promptNamed(config, "aggregate"), builtinPrompts["aggregate"]);
  assert.equal(promptNamed(config, "toString"), undefined);
});
