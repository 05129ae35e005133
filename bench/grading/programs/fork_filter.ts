/** Numbers of system calls by the machine's name in Node: its audit number, clone, clone3, and fork and vfork where it has them. */
const MACHINES: Readonly<Record<string, readonly [number, number, number, number, number]>> = {
  x64: [0xc000003e, 56, 435, 57, 58],
  arm64: [0xc00000b7, 220, 435, 220, 220],
};

/** Operations of the filter's machine: load a word; jump where it equals, is at least, has bits of; end with a verdict. */
const LOAD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_FROM = 0x35;
const JUMP_BITS = 0x45;
const RETURN = 0x06;
const ALLOWED = 0x7fff0000;
/** Fails with EPERM. */
const REFUSED = 0x00050001;
/** Fails with ENOSYS, for which the C library falls back to clone. */
const UNKNOWN = 0x00050026;
const NEW_THREAD = 0x10000;

/**
 * A seccomp filter with which a program starts threads, and no processes: limits on their number do not hold for root.
 * Undefined for machines whose numbers are not known here.
 */
export function forkFilter(machine: string): Uint8Array | undefined {
  const numbers = MACHINES[machine];
  if (numbers === undefined) return undefined;
  const [audit, clone, clone3, fork, vfork] = numbers;
  // Operation, steps where it holds, steps where not, and its operand.
  const program = [
    [LOAD, 0, 0, 4],
    [JUMP_EQUAL, 0, 9, audit],
    [LOAD, 0, 0, 0],
    // Calls of the x32 interface have numbers of their own.
    [JUMP_FROM, 7, 0, 0x40000000],
    [JUMP_EQUAL, 7, 0, clone3],
    [JUMP_EQUAL, 2, 0, clone],
    [JUMP_EQUAL, 4, 0, fork],
    [JUMP_EQUAL, 3, 2, vfork],
    [LOAD, 0, 0, 16],
    [JUMP_BITS, 0, 1, NEW_THREAD],
    [RETURN, 0, 0, ALLOWED],
    [RETURN, 0, 0, REFUSED],
    [RETURN, 0, 0, UNKNOWN],
  ] as const;
  const bytes = new DataView(new ArrayBuffer(8 * program.length));
  for (const [index, [operation, holds, fails, operand]] of program.entries()) {
    bytes.setUint16(8 * index, operation, true);
    bytes.setUint8(8 * index + 2, holds);
    bytes.setUint8(8 * index + 3, fails);
    bytes.setUint32(8 * index + 4, operand, true);
  }
  return new Uint8Array(bytes.buffer);
}
