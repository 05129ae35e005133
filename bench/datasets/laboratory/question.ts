/** One task of the laboratory: a word problem, to be answered by a number, or by yes or no. */
export interface LaboratoryQuestion {
  /** Unique in its split: the split, the seed and the number of the question. */
  readonly id: string;
  readonly kind: LaboratoryKind;
  /** Difficulty from 1 to 4: steps of the solution and size of the numbers. */
  readonly level: LaboratoryLevel;
  readonly question: string;
  /** The worked solution on one line; its last sentence is "The answer is …." */
  readonly solution: string;
  /** A whole number in digits, or `yes` or `no`. */
  readonly answer: string;
  /** Names the wordings and the operations in their order, without names, things and numbers. */
  readonly template: string;
  /** All numbers that the question gives, as they were drawn, with commas between. */
  readonly numbers: string;
}

/** `story`: word problems whose answer is a number. `choice`: the same problems, with a yes or a no. */
export type LaboratoryKind = "story" | "choice";

/** Difficulty, from 1 to 4. */
export type LaboratoryLevel = 1 | 2 | 3 | 4;

/** Questions for training models, for tuning thresholds, and for tests. */
export type LaboratorySplit = "train" | "tune" | "test";
