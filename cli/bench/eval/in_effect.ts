import { digestOf } from "../../../bench/records/digest.ts";
import type { ChosenProtocol } from "./eval_protocol.ts";
import type { EvalTargets } from "./eval_targets.ts";
import type { PickedSet } from "../question_source.ts";

/** All that answers and times of an evaluation depend on, as far as its options say it. */
export interface EffectOptions {
  readonly chosen: ChosenProtocol;
  /** Those of all parts. */
  readonly sets: readonly PickedSet[];
  readonly targets: Pick<EvalTargets, "content">;
  readonly modes: readonly string[];
  readonly seed: string;
  readonly repeats: number;
  /** Undefined for no limit. */
  readonly concurrency: number | undefined;
  /** Questions a second at random; undefined where the next one starts when one ends. */
  readonly rate: number | undefined;
  readonly warmUp: number | undefined;
  readonly timeoutSeconds: number;
  readonly maxTokens: number | undefined;
  readonly simulated: boolean;
  /** Of modes that draw several answers; undefined where there is none. */
  readonly drawing: { readonly temperature: number; readonly width: number } | undefined;
}

/** An evaluation's settings by their content, and their hash. */
export interface Effect {
  /** Questions and configurations by their SHA-256, wherever they lie; of keys, outputs and parts nothing. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** SHA-256 of the canonical JSON of the settings. */
  readonly hash: string;
}

/** The settings in effect, however they were given: a file and options that say the same have the same hash. */
export function effectOf({ chosen, sets, targets, ...others }: EffectOptions): Effect {
  const settings = {
    ...chosen.settings,
    sets: Object.fromEntries(sets.map(({ name, questions }) => [
      name,
      `${questions.length} ${questions.length === 1 ? "question" : "questions"}, sha256 ${
        digestOf(questions).slice(0, 16)
      }`,
    ])),
    ...targets.content,
    ...others,
  };
  return { settings, hash: digestOf(settings) };
}
