import {
  type EvalMode,
  MODE_FORMS,
  needsReference,
  readMode,
} from "../../../bench/evaluation/modes/eval_mode.ts";
import { UsageError } from "../../kit/args.ts";
import type { EvalTarget, EvalTargets } from "./eval_targets.ts";

/** Modes as they were chosen, and where each of their models is asked, by the name that modes give it. */
export interface ChosenModes {
  readonly modes: readonly EvalMode[];
  readonly asked: ReadonlyMap<string, EvalTarget>;
}

/** The modes of a command line; all that is served where none is named. Throws `UsageError` for one that cannot be. */
export function chosenModes(texts: readonly string[], targets: EvalTargets): ChosenModes {
  const all = targets.list.filter(({ again }) => !again).map(({ id }) => id);
  const asked = new Map<string, EvalTarget>();
  const modes = [...new Set(texts.length > 0 ? texts : all)].map((text) => {
    // A server may list a name that looks like one of the forms.
    const mode: EvalMode | undefined = targets.list.some(({ id }) => id === text)
      ? { kind: "once", name: text, model: text }
      : readMode(text);
    if (mode === undefined) {
      throw new UsageError(`Option --mode must be ${MODE_FORMS}: current value is "${text}"`);
    }
    const target = targets.find(mode.model);
    if (target === undefined) {
      throw new UsageError(
        `Option --mode ${text} names what is not served: there are ${
          targets.list.map(({ id }) => id).join(", ")
        }`,
      );
    }
    asked.set(mode.model, target);
    return mode;
  });
  const [first] = modes;
  if (first !== undefined && needsReference(first)) {
    throw new UsageError(
      `Option --mode ${first.name} cannot be the first one: its budget is what the first mode spends`,
    );
  }
  return { modes, asked };
}
