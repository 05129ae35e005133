/** Count of the calls and warms of one run that engines still work for. */
export class OpenWork {
  readonly #onIdle: () => void;
  #open = 0;

  /** `onIdle`: no engine works for the run any more; called each time that this becomes true. */
  constructor(onIdle: () => void) {
    this.#onIdle = onIdle;
  }

  get busy(): boolean {
    return this.#open > 0;
  }

  begin(): void {
    this.#open++;
  }

  end(): void {
    if (--this.#open === 0) this.#onIdle();
  }
}
