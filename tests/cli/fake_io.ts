import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { type Transport, TransportError } from "../../base/transport.ts";
import { type Io, type Output, StopRequest } from "../../cli/kit/io.ts";

/** An output that keeps what is written to it. */
export class FakeOutput implements Output {
  text = "";
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly rows: number;

  constructor(options: { terminal?: boolean; columns?: number; rows?: number } = {}) {
    this.isTerminal = options.terminal ?? false;
    this.columns = options.columns ?? 80;
    this.rows = options.rows ?? 24;
  }

  write(text: string): void {
    this.text += text;
  }
}

/** A network on which nobody answers. */
const NOBODY: Transport = {
  send: (request) => Promise.reject(new TransportError("connect_failed", request.url)),
  close: () => Promise.resolve(),
};

/** The outside of a command, all of it in memory. */
export interface FakeIo extends Io {
  readonly out: FakeOutput;
  readonly err: FakeOutput;
  /** Asks the command to stop, as Ctrl-C does. */
  interrupt(): void;
  /** Sends SIGHUP; false when nobody listens. */
  hangUp(): boolean;
}

export function fakeIo(
  options: {
    terminal?: boolean;
    columns?: number;
    rows?: number;
    env?: Io["env"];
    cwd?: string;
    clock?: Io["clock"];
    transport?: Transport;
    /** What is piped in. */
    input?: string;
    /** What is typed when the command asks. */
    typed?: readonly string[];
  } = {},
): FakeIo {
  const stop = new AbortController();
  const typed = [...(options.typed ?? [])];
  const hangUps = new Set<() => void>();
  const interrupts = new Set<() => void>();
  return {
    out: new FakeOutput(options),
    err: new FakeOutput(options),
    env: options.env ?? {},
    cwd: options.cwd ?? ".",
    clock: options.clock ?? new VirtualClock(),
    random: new Random("cli"),
    transport: options.transport ?? NOBODY,
    stop: stop.signal,
    canAsk: options.typed !== undefined,
    ask: () => Promise.resolve(typed.shift()),
    readInput: () => Promise.resolve(options.input ?? ""),
    interrupt: () => {
      if (interrupts.size === 0) stop.abort(new StopRequest("SIGINT"));
      for (const listener of interrupts) listener();
    },
    onInterrupt: (listener) => {
      interrupts.add(listener);
      return () => interrupts.delete(listener);
    },
    onHangUp: (listener) => {
      hangUps.add(listener);
      return () => hangUps.delete(listener);
    },
    hangUp: () => {
      for (const listener of hangUps) listener();
      return hangUps.size > 0;
    },
  };
}
