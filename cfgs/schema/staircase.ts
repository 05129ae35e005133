import { z } from "zod";

/** When the root starts. */
export const rootStartSchema = z.enum(["wait", "staircase"]);

/** Sizes of the steps of a staircase. */
export const staircaseSchema = z.strictObject({
  climbs: z.enum(["root", "all"]).default("root").describe(
    "Who starts before its precursors are done: the root alone, or every agent that reads others",
  ),
  first_tokens: z.int().min(1).default(32).describe(
    "Tokens that each precursor that still writes must have written before the first step",
  ),
  chunk_tokens: z.int().min(1).default(64).describe(
    "Tokens that each of them must have written since a step before the next one",
  ),
  steps: z.int().min(1).max(64).default(4).describe("Most steps before the precursors are done"),
  write_tokens: z.int().min(1).default(16).describe("Tokens that are written in each of these steps"),
  ahead_tokens: z.int().min(1).default(64).describe(
    "Most tokens that are written before the precursors are done, all steps together",
  ),
}).describe("Steps of an answer that is begun on the first words of its precursors");

/** A checked staircase, with all defaults filled in. */
export type StaircaseConfig = z.infer<typeof staircaseSchema>;
export type RootStart = z.infer<typeof rootStartSchema>;
