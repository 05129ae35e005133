/** A process to start, without a shell. */

export interface EngineCommand {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
}
