/** Longer lines are cut: progress bars without end, dumped arguments. */
const MAX_LINE_LENGTH = 4_096;

// deno-lint-ignore no-control-regex
const COLORS = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** Cuts a stream of text into lines; a progress bar's carriage return ends a line, too. */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #decoder = new TextDecoder();
  #rest = "";

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  write(bytes: Uint8Array): void {
    const pieces = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!\n)/);
    this.#rest = (pieces.pop() ?? "").slice(-MAX_LINE_LENGTH);
    for (const piece of pieces) this.#emit(piece);
  }

  /** Hands out what is left when the stream has ended. */
  end(): void {
    this.#emit(this.#rest);
    this.#rest = "";
  }

  #emit(piece: string): void {
    const line = piece.replace(COLORS, "").trimEnd().slice(0, MAX_LINE_LENGTH);
    if (line.trim() !== "") this.#onLine(line);
  }
}
