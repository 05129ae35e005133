/** A unit of measure, as a product of base units with a factor. */
export interface Unit {
  /** Base units with their powers, in order: `m2`, `m1 s-1`, `$1`. */
  readonly dimension: string;
  readonly top: bigint;
  readonly bottom: bigint;
}

type Base = readonly [dimension: string, top: number, bottom?: number];

/** By the names that are matched whole and, but for the one-letter ones, without regard to case. */
const UNITS: Readonly<Record<string, Base>> = {
  ...named(["m", 1], "m", "meter", "metre"),
  ...named(["m", 1, 1000], "mm", "millimeter", "millimetre"),
  ...named(["m", 1, 100], "cm", "centimeter", "centimetre"),
  ...named(["m", 1000], "km", "kilometer", "kilometre"),
  ...named(["m", 254, 10_000], "inch", "inches", "in"),
  ...named(["m", 3048, 10_000], "ft", "foot", "feet"),
  ...named(["m", 9144, 10_000], "yd", "yard"),
  ...named(["m", 1_609_344, 1000], "mi", "mile"),
  ...named(["g", 1], "g", "gram"),
  ...named(["g", 1, 1000], "mg", "milligram"),
  ...named(["g", 1000], "kg", "kilogram", "kilo"),
  ...named(["g", 1_000_000], "ton", "tonne"),
  ...named(["g", 45_359_237, 100_000], "lb", "pound"),
  ...named(["s", 1], "s", "sec", "second"),
  ...named(["s", 1, 1000], "ms", "millisecond"),
  ...named(["s", 60], "min", "minute"),
  ...named(["s", 3600], "h", "hr", "hour"),
  ...named(["s", 86_400], "day"),
  ...named(["s", 604_800], "week"),
  ...named(["month", 1], "month"),
  ...named(["month", 12], "year"),
  ...named(["l", 1], "l", "L", "liter", "litre"),
  ...named(["l", 1, 1000], "ml", "mL", "milliliter", "millilitre"),
  ...named(["gallon", 1], "gallon"),
  ...named(["$", 1], "$", "dollar", "usd"),
  ...named(["$", 1, 100], "cent", "¢"),
  ...named(["€", 1], "€", "euro", "eur"),
  ...named(["£", 1], "£", "gbp"),
  ...named(["¥", 1], "¥", "yen"),
  ...named(["°", 1], "°", "degree"),
  ...named(["°C", 1], "°C"),
  ...named(["°F", 1], "°F"),
  ...named(["rad", 1], "rad", "radian"),
  ...named(["J", 1], "J", "joule"),
  ...named(["N", 1], "N", "newton"),
  ...named(["W", 1], "W", "watt"),
  ...named(["V", 1], "V", "volt"),
  ...named(["Hz", 1], "Hz", "hertz"),
};

/** The unit that a text names (cm, km/h, m^2, square meters, dollars per hour); undefined where it names none that is known. */
export function unitOf(text: string): Unit | undefined {
  const trimmed = text.replaceAll(/\\circ/g, "°").replaceAll(/[\\{}]|\^(?=\s?°)/g, "").trim().replaceAll(
    "²",
    "^2",
  )
    .replaceAll("³", "^3").replace(/^mph$/iu, "mi/h").replace(/^km\/?hr?$/iu, "km/h");
  if (trimmed.length > 60) return undefined;
  const parts = trimmed.split(/\s?\/\s?|\s+(?:per|an?)\s+/iu);
  if (parts.length > 2) return undefined;
  const [over, under] = parts.map(powerOf);
  if (over === undefined) return undefined;
  if (parts.length === 1) return over;
  if (under === undefined) return undefined;
  return {
    dimension: `${over.dimension} / ${under.dimension}`,
    top: over.top * under.bottom,
    bottom: over.bottom * under.top,
  };
}

function powerOf(text: string): Unit | undefined {
  const match =
    /^(?:(square|cubic|sq\.?|cu\.?)\s?)?(°[CF]?|[$€£¥¢]|[a-z]+)(?:\s?\^?\s?([23])|\s(squared|cubed))?$/iu
      .exec(text.trim());
  if (match === null) return undefined;
  const [, before = "", name = "", digit, behind] = match;
  const base = lookUp(name) ?? (/..s$/u.test(name) ? lookUp(name.slice(0, -1)) : undefined);
  if (base === undefined) return undefined;
  const exponent = /^sq/iu.test(before) || digit === "2" || behind === "squared"
    ? 2n
    : /^cu/iu.test(before) || digit === "3" || behind === "cubed"
    ? 3n
    : 1n;
  const [dimension, top, bottom = 1] = base;
  return {
    dimension: `${dimension}${exponent}`,
    top: BigInt(top) ** exponent,
    bottom: BigInt(bottom) ** exponent,
  };
}

function lookUp(name: string): Base | undefined {
  if (Object.hasOwn(UNITS, name)) return UNITS[name];
  const lower = name.toLowerCase();
  return name.length > 1 && Object.hasOwn(UNITS, lower) ? UNITS[lower] : undefined;
}

function named(base: Base, ...names: readonly string[]): Record<string, Base> {
  return Object.fromEntries(names.map((name) => [name, base]));
}
