import { z } from "zod";

/** Sampling parameters that an agent or a layer may set, in OpenAI's names; unknown ones go to the engine as they are. */
export const samplingSchema = z.looseObject({
  max_tokens: z.int().min(1).optional().describe("Longest answer, in tokens"),
  temperature: z.number().min(0).max(2).optional().describe("0: always the likeliest token"),
  top_p: z.number().gt(0).max(1).optional().describe(
    "Only the likeliest tokens that have this share together",
  ),
  top_k: z.int().min(-1).optional().describe("Only so many of the likeliest tokens; -1: all"),
  min_p: z.number().min(0).max(1).optional().describe(
    "Only tokens that are at least this likely, as a share of the likeliest one",
  ),
  frequency_penalty: z.number().min(-2).max(2).optional().describe(
    "Taken from a token's score for each time that it has been written",
  ),
  presence_penalty: z.number().min(-2).max(2).optional().describe(
    "Taken from a token's score once it has been written",
  ),
  repetition_penalty: z.number().gt(0).max(2).optional().describe(
    "Above 1: tokens of prompt and answer are less likely to come again",
  ),
  seed: z.int().optional().describe("Of the engine's chance: the same request gets the same answer"),
  stop: z.union([z.string(), z.array(z.string())]).optional().describe("Texts at which an answer ends"),
}).describe("Sampling parameters in OpenAI's names");
