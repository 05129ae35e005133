import v8 from "node:v8";
import vm from "node:vm";

interface BunRuntime {
  gc(force: boolean): void;
}

function hasBun(scope: object): scope is { Bun: BunRuntime } {
  return "Bun" in scope;
}

function collect(): void {
  const runtime: object = globalThis;
  if (hasBun(runtime)) return runtime.Bun.gc(true);
  v8.setFlagsFromString("--expose-gc");
  vm.runInNewContext("gc")();
}

/** How many of these are kept by something: the garbage is collected first. */
export async function stillThere(refs: readonly WeakRef<object>[]): Promise<number> {
  // What was looked at stays until the end of the turn; collectors look at the stack, too.
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  return refs.filter((ref) => ref.deref() !== undefined).length;
}
