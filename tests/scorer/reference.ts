import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** One answer's figures and those after its completion, as `make_reference.py` calculated them. */
export interface ReferenceStep {
  readonly l: number;
  readonly C: number;
  readonly C_bar: number;
  readonly P: number | null;
  readonly B: number | null;
  readonly Q: number | null;
  readonly literal: { readonly P: number; readonly B: number; readonly Q: number };
}

/** Answers in the order of their completion, with the table of their similarities (`fcs`, all rows). */
export interface ReferenceGroup {
  readonly id: string;
  readonly tau: number;
  readonly gamma: number;
  readonly answers: readonly { readonly text: string; readonly logprobs: readonly number[] }[];
  readonly sim: readonly (readonly number[])[];
  readonly steps: readonly ReferenceStep[];
}

const folder = join(dirname(fileURLToPath(import.meta.url)), "..", "fixtures", "tiny-qwen3-embedding");
const reference: {
  readonly texts: readonly { readonly id: string; readonly text: string; readonly ids: readonly number[] }[];
  readonly groups: readonly ReferenceGroup[];
} = JSON.parse(readFileSync(join(folder, "reference.json"), "utf8"));

/** The fixture's model folder. */
export const referenceModel = folder;
export const referenceGroups = reference.groups;
export const referenceTexts = new Map(reference.texts.map((text) => [text.id, text]));
