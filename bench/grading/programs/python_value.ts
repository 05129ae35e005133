/** A value of Python as the sandbox writes it: its kind, and its digits, text (of a long one the hash) or parts. */
export type PythonValue =
  | readonly ["none"]
  | readonly ["bool" | "int" | "float" | "str" | "long" | "other", string]
  | readonly ["complex", string, string]
  | readonly ["list" | "tuple" | "set", readonly PythonValue[]]
  | readonly ["dict", readonly (readonly [PythonValue, PythonValue])[]];

/** Python's `a == b`. Values of other kinds than those of the language itself equal nothing. */
export function equalValues(a: PythonValue, b: PythonValue): boolean {
  if (isNumber(a) && isNumber(b)) return equalNumbers(a, b);
  if (a[0] !== b[0] || a[0] === "other") return false;
  if (a[0] === "list" || a[0] === "tuple") {
    const others = partsOf(b);
    return a[1].length === others.length && a[1].every((part, index) => equalValues(part, others[index]!));
  }
  if (a[0] === "set") return sameMembers(a[1], partsOf(b));
  if (a[0] === "dict") {
    return sameMembers(a[1].map(pairOf), b[0] === "dict" ? b[1].map(pairOf) : []);
  }
  return a.length === b.length && a.every((part, index) => part === b[index]);
}

/** True for a float, and for a list or tuple of some of them. */
export function isFloats(value: PythonValue): boolean {
  const parts = partsOf(value);
  return value[0] === "float" ||
    (parts.length > 0 && value[0] !== "set" && parts.every(([kind]) => kind === "float"));
}

/** EvalPlus's second chance for numbers: of the same kind and length, and each as near as NumPy's `allclose` asks. */
export function closeValues(value: PythonValue, wanted: PythonValue, tolerance: number): boolean {
  return value[0] === wanted[0] && closeParts(value, wanted, tolerance);
}

/** The number that a value is, as a float; NaN for others. */
export function floatOf(value: PythonValue): number {
  if (!isNumber(value)) return NaN;
  const [, digits] = value;
  return digits.endsWith("inf") ? (digits.startsWith("-") ? -Infinity : Infinity) : Number(digits);
}

/** Parts of a list, tuple or set; none of others. */
export function partsOf(value: PythonValue): readonly PythonValue[] {
  return value[0] === "list" || value[0] === "tuple" || value[0] === "set" ? value[1] : [];
}

function closeParts(value: PythonValue, wanted: PythonValue, tolerance: number): boolean {
  if (isNumber(value) && isNumber(wanted)) {
    const [a, b] = [floatOf(value), floatOf(wanted)];
    return a === b || Math.abs(a - b) <= tolerance + 1e-7 * Math.abs(b) && Number.isFinite(b);
  }
  const [parts, others] = [partsOf(value), partsOf(wanted)];
  return !isNumber(value) && !isNumber(wanted) && isSequence(value) && isSequence(wanted) &&
    parts.length === others.length &&
    parts.every((part, index) => closeParts(part, others[index]!, tolerance));
}

type NumberValue = readonly ["bool" | "int" | "float", string];

function isNumber(value: PythonValue): value is NumberValue {
  return value[0] === "bool" || value[0] === "int" || value[0] === "float";
}

function isSequence([kind]: PythonValue): boolean {
  return kind === "list" || kind === "tuple";
}

function equalNumbers(a: NumberValue, b: NumberValue): boolean {
  if (a[0] !== "float" && b[0] !== "float") return BigInt(a[1]) === BigInt(b[1]);
  const [first, second] = [floatOf(a), floatOf(b)];
  if (a[0] === "float" && b[0] === "float") return first === second;
  const [float, digits] = a[0] === "float" ? [first, b[1]] : [second, a[1]];
  return Number.isInteger(float) && BigInt(float) === BigInt(digits);
}

function sameMembers(list: readonly PythonValue[], others: readonly PythonValue[]): boolean {
  return list.length === others.length &&
    list.every((one) => others.some((other) => equalValues(one, other)));
}

function pairOf([key, value]: readonly [PythonValue, PythonValue]): PythonValue {
  return ["tuple", [key, value]];
}
