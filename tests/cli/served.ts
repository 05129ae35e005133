import { SystemClock } from "../../base/clock.ts";
import { demoCommand } from "../../cli/demo/demo.ts";
import { runCommand } from "../../cli/kit/dispatch.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { type FakeIo, fakeIo } from "./fake_io.ts";

/** Runs `use` beside a served demonstration whose engines take next to no time; gives the server's exit code. */
export async function withServedDemo(
  use: (url: string) => Promise<void>,
  ...args: string[]
): Promise<number> {
  return await withSystem(async (io) => {
    const all = ["demo", "--serve-only", "--speedup", "500", ...args];
    let ended: number | undefined;
    const serving = runCommand([demoCommand], all, io).then((code) => ended = code);
    try {
      let url: string | undefined;
      while (url === undefined) {
        if (ended !== undefined) throw new Error(`The demonstration ended with ${ended}: ${io.err.text}`);
        await io.clock.sleep(5);
        url = /listening on (\S+)/.exec(io.out.text)?.[1];
      }
      await use(url);
    } finally {
      io.interrupt();
      await serving;
    }
    return await serving;
  });
}

/** A command's surroundings with real time and a real network. */
export async function withSystem<T>(
  use: (io: FakeIo) => Promise<T>,
  options: Parameters<typeof fakeIo>[0] = {},
): Promise<T> {
  const transport = systemTransport();
  try {
    return await use(fakeIo({ clock: new SystemClock(), transport, ...options }));
  } finally {
    await transport.close();
  }
}
