/** A prompt that grows while its precursors write, as its warmer needs it. */
export interface GrowingPrompt {
  /** The first tokens of the final prompt, as far as they are certain. May be a live view. */
  readonly stable: readonly number[];
  /** Number of tokens that are certain. */
  readonly stableTokens: number;
  /**
   * Goes on to what is known now. `kept`: so many of the tokens that were stable still are. `waitsFor`: the agent that
   * writes at its end; undefined where none does. `busy`: resolves when text that is being encoded elsewhere has been
   * taken in. `inline`: nothing long is begun.
   */
  update(options?: { readonly inline?: boolean }): {
    readonly kept: number;
    readonly waitsFor: string | undefined;
    readonly busy?: Promise<void> | undefined;
  };
  /** True while a precursor writes on that worker. */
  isWrittenOn(workerId: string): boolean;
}
