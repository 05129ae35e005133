/** The part of `bun:ffi` that is used here. */
interface ForeignFunctions {
  dlopen<Name extends string>(
    path: string,
    symbols: Record<Name, { args: string[]; returns: string }>,
  ): { symbols: Record<Name, (...args: unknown[]) => unknown> };
}

/** Not written in the import, where Deno would try to resolve it. */
const FOREIGN_FUNCTIONS_MODULE = "bun:ffi";

/** Calls of C functions, under Bun. */
export async function foreignFunctions(): Promise<ForeignFunctions> {
  return await import(FOREIGN_FUNCTIONS_MODULE);
}
