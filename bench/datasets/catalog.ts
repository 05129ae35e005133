import type { DataSet } from "./data_set.ts";
import { BBH } from "./published/bbh.ts";
import { GSM8K } from "./published/gsm8k.ts";
import { AIME_2025, HMMT_FEB_2025, MATH_500 } from "./published/maths.ts";
import { GPQA_DIAMOND, MMLU, MMLU_PROX_LITE } from "./published/multiple_choice.ts";
import { HUMANEVAL_PLUS, IFBENCH } from "./published/programs.ts";

/** The data sets that questions are read from. */
export const DATA_SETS: readonly DataSet[] = [
  GSM8K,
  MATH_500,
  AIME_2025,
  HMMT_FEB_2025,
  GPQA_DIAMOND,
  MMLU,
  MMLU_PROX_LITE,
  IFBENCH,
  HUMANEVAL_PLUS,
  BBH,
];
