import process from "node:process";
import { createInterface } from "node:readline/promises";
import { isatty } from "node:tty";
import { type Clock, SystemClock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { Random, systemSeed } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import { systemTransport } from "../../router/transport/system.ts";

/** A place that text is written to. */
export interface Output {
  write(text: string): void;
  /** True when a person looks at it as it is written. */
  readonly isTerminal: boolean;
  /** Width in characters; 80 where there is no terminal. */
  readonly columns: number;
  /** Height in lines; 24 where there is no terminal. */
  readonly rows: number;
}

/** All that a command sees of the outside, so that tests can run it in process. */
export interface Io {
  readonly out: Output;
  readonly err: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Clock;
  readonly random: Random;
  /** The way to servers and engines. */
  readonly transport: Transport;
  /** Aborts when the user or the system asks the program to stop (SIGINT, SIGTERM). */
  readonly stop: AbortSignal;
  /**
   * Calls the listener at each SIGHUP while the terminal is there, until the returned function is called; while nobody
   * listens, SIGHUP ends the program.
   */
  onHangUp(listener: () => void): () => void;
  /** Until the returned function is called, Ctrl-C calls the listener instead of aborting `stop`. */
  onInterrupt(listener: () => void): () => void;
  /** True when questions can be typed. */
  readonly canAsk: boolean;
  /** One line from the keyboard; undefined at its end or when `stop` aborts. `history`: earlier lines, the last first. */
  ask(prompt: string, history?: readonly string[]): Promise<string | undefined>;
  /** All of what was piped in; empty when questions can be typed instead. */
  readInput(): Promise<string>;
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => void stream.write(text),
    // A dumb terminal shows lines, but cannot move among them.
    isTerminal: stream.isTTY === true && process.env.TERM !== "dumb",
    get columns() {
      return stream.columns || 80;
    },
    get rows() {
      return stream.rows || 24;
    },
  };
}

/** The reason of `Io.stop`: a signal that asked the program to stop. */
export class StopRequest extends Error {
  override readonly name = "StopRequest";
  readonly exitCode: number;

  constructor(signal: keyof typeof EXIT_CODES) {
    super(`The program was asked to stop (${signal})`);
    this.exitCode = EXIT_CODES[signal];
  }
}

/** Exit codes as shells give them to a program that a signal has ended. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The exit code for work that the reason of `Io.stop` has cut short: 130 for Ctrl-C. */
export function exitCodeOf(reason: unknown): number {
  return reason instanceof StopRequest ? reason.exitCode : 1;
}

/**
 * Gives `main` the process it runs in, and ends with the exit code it returns.
 * The first SIGINT or SIGTERM aborts `io.stop`; a second one ends the process at once.
 */
export async function withProcess(main: (args: readonly string[], io: Io) => Promise<number>): Promise<void> {
  const stop = new AbortController();
  const onSignal = (name: keyof typeof EXIT_CODES) => {
    const request = new StopRequest(name);
    if (stop.signal.aborted) process.exit(request.exitCode);
    stop.abort(request);
  };
  const interrupts = new Set<() => void>();
  const onInterrupt = () => {
    if (interrupts.size === 0) return onSignal("SIGINT");
    for (const listener of interrupts) listener();
  };
  const onTerminate = () => onSignal("SIGTERM");
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onTerminate);
  let isCut = false;
  // Listened to until the very end: what was written last fails when the command has returned.
  process.stdout.on("error", (error: Error & { code?: string }) => {
    // A reader that has seen enough (`canopy check | head`) is no failure; what is being ended ends in order.
    if (error.code === "EPIPE") return stop.signal.aborted ? undefined : process.exit(0);
    isCut = true;
    process.exitCode = 1;
    process.stderr.write(`canopy: Cannot write the output: ${messageOf(error)}\n`);
  });
  // Of what nobody reads any more there is nobody to tell.
  process.stderr.on("error", () => {});
  const transport = systemTransport();
  try {
    const exitCode = await main(process.argv.slice(2), {
      out: outputOf(process.stdout),
      err: outputOf(process.stderr),
      env: process.env,
      cwd: process.cwd(),
      clock: new SystemClock(),
      random: new Random(systemSeed()),
      transport,
      stop: stop.signal,
      onHangUp: (listener) => onHangUp(listener, () => onSignal("SIGHUP")),
      onInterrupt: (listener) => {
        interrupts.add(listener);
        return () => interrupts.delete(listener);
      },
      canAsk: process.stdin.isTTY === true,
      ask: (prompt, history) => ask(prompt, history, stop.signal),
      readInput: () => readInput(stop.signal),
    });
    process.exitCode = isCut && exitCode === 0 ? 1 : exitCode;
  } finally {
    await transport.close();
    process.off("SIGINT", onInterrupt);
    process.off("SIGTERM", onTerminate);
  }
}

/** `onGone`: called instead where the terminal from which the program was started is gone. */
function onHangUp(listener: () => void, onGone: () => void): () => void {
  const isHeld = process.stdin.isTTY === true;
  const onSignal = () => isHeld && !isatty(0) ? onGone() : listener();
  process.on("SIGHUP", onSignal);
  return () => process.off("SIGHUP", onSignal);
}

/** Most characters of piped input. */
const MAX_INPUT_LENGTH = 16 * 1024 * 1024;

async function readInput(signal: AbortSignal): Promise<string> {
  if (process.stdin.isTTY === true) return "";
  let text = "";
  process.stdin.setEncoding("utf8");
  const onStop = () => void process.stdin.destroy();
  signal.addEventListener("abort", onStop, { once: true });
  try {
    for await (const piece of process.stdin) {
      text += piece;
      if (text.length > MAX_INPUT_LENGTH) {
        throw new Error(`Cannot read the input: it is longer than ${MAX_INPUT_LENGTH} characters`);
      }
    }
  } finally {
    signal.removeEventListener("abort", onStop);
  }
  signal.throwIfAborted();
  return text;
}

async function ask(
  prompt: string,
  history: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const lines = createInterface({
    input: process.stdin,
    output: process.stdout,
    history: [...history ?? []],
  });
  const end = new AbortController();
  const onEnd = () => end.abort();
  lines.once("close", onEnd);
  signal.addEventListener("abort", onEnd, { once: true });
  try {
    return await lines.question(prompt, { signal: end.signal });
  } catch {
    return undefined;
  } finally {
    signal.removeEventListener("abort", onEnd);
    lines.off("close", onEnd);
    lines.close();
  }
}

/** Resolves when the program is asked to stop. */
export function untilStopped(io: Io): Promise<void> {
  return new Promise((resolve) => {
    if (io.stop.aborted) resolve();
    else io.stop.addEventListener("abort", () => resolve(), { once: true });
  });
}
