import { call, type Comparison, type Formula, type RelationSign, whole } from "./formula.ts";

/** Deepest nesting that is read. */
const MAX_DEPTH = 40;
/** Longest formula that is read, in characters, and in numbers and symbols. */
const MAX_LENGTH = 300;
const MAX_ATOMS = 100;

const SIGNS: readonly (readonly [RegExp, RelationSign, boolean])[] = [
  [/≠|!=|\\neq?(?![a-z])|\\not\s?=/y, "≠", false],
  [/<=|≤|\\leq?(?:slant)?(?![a-z])/y, "≤", false],
  [/>=|≥|\\geq?(?:slant)?(?![a-z])/y, "≤", true],
  [/<|\\lt(?![a-z])/y, "<", false],
  [/>|\\gt(?![a-z])/y, "<", true],
  [/∈|\\in(?![a-z])/y, "∈", false],
  [/=/y, "=", false],
];
const FUNCTIONS = /\\?(arcsin|arccos|arctan|sin|cos|tan|cot|sec|csc|ln|log|lg|exp)(?![a-z])/iy;
const GREEK =
  /\\(?:var)?(alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Sigma|Phi|Psi|Omega|ell)(?![a-zA-Z])/y;
const BINARY_MULTIPLICATION = /\\cdot(?![a-z])|\\times(?![a-z])|\*(?!\*)|×|·/y;
const DIVISION = /\/|\\div(?![a-z])|÷/y;

class UnreadableError extends Error {}

/**
 * Reads LaTeX or plain notation: sums, products (written or implied), powers, roots, the usual functions, relations,
 * intervals, tuples, sets, unions and matrices. Undefined for what is longer than 300 characters or 100 numbers and symbols, nested
 * deeper than 40, or can be read in two ways (1/2x, sin x(1 + x), e^2x).
 */
export function parseFormula(text: string): Formula | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  try {
    return new FormulaParser(text).whole();
  } catch (error) {
    if (error instanceof UnreadableError) return undefined;
    throw error;
  }
}

class FormulaParser {
  readonly #text: string;
  #at = 0;
  #depth = 0;
  #atoms = 0;
  #bars = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): Formula {
    const formula = this.#relation();
    this.#skip();
    if (this.#at < this.#text.length) return unreadable();
    return formula;
  }

  #relation(): Formula {
    const first = this.#union();
    const comparisons: Comparison[] = [];
    let left = first;
    for (let sign = this.#sign(); sign !== undefined; sign = this.#sign()) {
      const right = this.#union();
      comparisons.push(
        sign.turned ? { sign: sign.sign, left: right, right: left } : { sign: sign.sign, left, right },
      );
      left = right;
    }
    return comparisons.length === 0 ? first : { kind: "relation", comparisons };
  }

  #sign(): { sign: RelationSign; turned: boolean } | undefined {
    for (const [pattern, sign, turned] of SIGNS) {
      if (this.#eat(pattern) !== undefined) return { sign, turned };
    }
    return undefined;
  }

  #union(): Formula {
    const items = [this.#sum()];
    while (this.#eat(/\\cup(?![a-z])|∪/y) !== undefined) items.push(this.#sum());
    return items.length === 1 ? items[0]! : { kind: "union", items };
  }

  #sum(): Formula {
    return this.#deeper(() => {
      let value = this.#product();
      for (;;) {
        if (this.#eat(/\+(?!-)/y) !== undefined) value = call("add", value, this.#product());
        else if (this.#eat(/-/y) !== undefined) value = call("sub", value, this.#product());
        else if (this.#eat(/±|\\pm(?![a-z])|\+-/y) !== undefined) value = call("pm", value, this.#product());
        else if (this.#eat(/∓|\\mp(?![a-z])/y) !== undefined) value = call("mp", value, this.#product());
        else return value;
      }
    });
  }

  #product(): Formula {
    let value = this.#signed();
    for (;;) {
      if (this.#eat(BINARY_MULTIPLICATION) !== undefined) value = call("mul", value, this.#signed());
      else if (this.#eat(DIVISION) !== undefined) {
        value = call("div", value, this.#power());
        // 1/2x is (1/2)x to one and 1/(2x) to another.
        if (this.#atFactor()) return unreadable();
      } else if (this.#atFactor()) {
        if (value.kind === "number" && /\d/.test(this.#text[this.#at]!)) return unreadable();
        value = call("mul", value, this.#power());
      } else return value;
    }
  }

  #signed(): Formula {
    if (this.#eat(/-/y) !== undefined) return call("neg", this.#deeper(() => this.#signed()));
    if (this.#eat(/±|\\pm(?![a-z])|\+-/y) !== undefined) return call("pm", whole(0), this.#power());
    if (this.#eat(/∓|\\mp(?![a-z])/y) !== undefined) return call("mp", whole(0), this.#power());
    this.#eat(/\+/y);
    return this.#power();
  }

  #power(): Formula {
    let base = this.#atom();
    for (;;) {
      if (this.#eat(/!(?!=)/y) !== undefined) base = call("factorial", base);
      else if (this.#eat(/\\?%/y) !== undefined) base = call("div", base, whole(100));
      else if (this.#eat(/\^\s?\{?\s?\\circ(?![a-z])\s?\}?|°|\\degree(?![a-z])/y) !== undefined) {
        base = call("div", call("mul", base, { kind: "symbol", name: "pi" }), whole(180));
      } else break;
    }
    if (this.#eat(/\^|\*\*/y) === undefined) return base;
    const exponent = this.#exponent(base);
    if (this.#looksAt(/\^|\*\*|!(?!=)/y)) return unreadable();
    return call("pow", base, exponent);
  }

  #exponent(base: Formula): Formula {
    if (this.#looksAt(/[{(]/y)) return this.#atom();
    const negative = this.#eat(/-/y) !== undefined;
    const digits = this.#eat(/\d+/y);
    if (digits === undefined) return negative ? call("neg", this.#single()) : this.#single();
    // e^2x: the x belongs to the exponent or it does not.
    if (base.kind === "symbol" && base.name === "e" && /[\w\\]/.test(this.#text[this.#at] ?? "")) {
      return unreadable();
    }
    return negative ? call("neg", numberOf(digits, "")) : numberOf(digits, "");
  }

  #atom(): Formula {
    return this.#deeper(() => {
      if (++this.#atoms > MAX_ATOMS) return unreadable();
      const digits = this.#eat(/\d{1,3}(?:\{,\}\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+/y);
      if (digits !== undefined) return this.#number(digits);
      return this.#enclosed() ?? this.#command() ?? this.#function() ?? this.#symbol();
    });
  }

  #number(text: string): Formula {
    const [integer = "", decimals = ""] = text.replaceAll("{,}", "").split(".");
    const repeated = this.#eat(/\.?\\overline\s?\{\d{1,12}\}/y);
    if (repeated !== undefined) {
      if (text.includes(".") === repeated.startsWith(".")) return unreadable();
      return repeating(integer, decimals, /\d+/.exec(repeated)![0]);
    }
    const number = numberOf(integer, decimals);
    // 2\frac{1}{2} is two and a half.
    const mixed = decimals === ""
      ? this.#eat(/\s?\\frac\s?(?:\{\d{1,9}\}|\d)\s?(?:\{\d{1,9}\}|\d)/y)
      : undefined;
    if (mixed === undefined) return number;
    const [top = "", bottom = ""] = mixed.includes("{")
      ? mixed.match(/\d+/g) ?? []
      : mixed.match(/\d/g) ?? [];
    if (top === "" || bottom === "") return unreadable();
    return call("add", number, call("div", numberOf(top, ""), numberOf(bottom, "")));
  }

  /** Parentheses, brackets, braces, bars. */
  #enclosed(): Formula | undefined {
    const open = this.#eat(/\(|\[|\\\{|\{|\\langle(?![a-z])/y);
    if (open === "{") {
      const content = this.#sum();
      this.#expect(/\}/y);
      return content;
    }
    if (open === "\\{") {
      if (this.#eat(/\\\}/y) !== undefined) return { kind: "set", items: [] };
      const items = this.#items();
      this.#expect(/\\\}/y);
      return { kind: "set", items };
    }
    if (open !== undefined) {
      const outer = this.#bars;
      this.#bars = 0;
      const items = this.#items();
      const close = open === "\\langle" ? this.#expect(/\\rangle(?![a-z])/y) : this.#expect(/\)|\]/y);
      this.#bars = outer;
      if (items.length > 1) return { kind: "bracket", open, close, items };
      return (open === "(") === (close === ")") && open !== "\\langle" ? items[0]! : unreadable();
    }
    if (this.#bars > 0 || this.#eat(/\||\\[lr]?vert(?![a-z])/y) === undefined) return undefined;
    this.#bars++;
    const content = this.#sum();
    this.#expect(/\||\\[lr]?vert(?![a-z])/y);
    this.#bars--;
    return call("abs", content);
  }

  #items(): Formula[] {
    const items = [this.#union()];
    while (this.#eat(/[,;]/y) !== undefined) items.push(this.#union());
    return items;
  }

  /** Fractions, roots, binomial coefficients, matrices, constants. */
  #command(): Formula | undefined {
    if (this.#eat(/\\frac(?![a-z])/y) !== undefined) return call("div", this.#argument(), this.#argument());
    if (this.#eat(/\\binom(?![a-z])/y) !== undefined) {
      return call("binomial", this.#argument(), this.#argument());
    }
    if (this.#eat(/\\sqrt(?![a-z])|√|sqrt(?=\s?[({])/y) !== undefined) {
      const index = this.#eat(/\[\s?\d{1,2}\s?\]/y);
      return call("root", numberOf(index?.replaceAll(/\D/g, "") ?? "2", ""), this.#argument());
    }
    const matrix = this.#eat(/\\begin\s?\{[pbv]matrix\}/y);
    if (matrix !== undefined) return this.#matrix(matrix.includes("{v"));
    if (this.#eat(/\\pi(?![a-z])|π|pi(?![a-zA-Z])/y) !== undefined) return { kind: "symbol", name: "pi" };
    if (this.#eat(/\\infty(?![a-z])|∞/y) !== undefined) return { kind: "symbol", name: "infinity" };
    if (this.#eat(/\\(?:emptyset|varnothing)(?![a-z])|∅/y) !== undefined) return { kind: "set", items: [] };
    const field = this.#eat(/\\mathbb\s?\{?\s?[A-Z]\s?\}?|[ℝℤℕℚℂ]/y);
    return field === undefined ? undefined : { kind: "symbol", name: `set ${fieldOf(field)}` };
  }

  #matrix(bars: boolean): Formula {
    const rows: Formula[][] = [];
    do {
      if (this.#looksAt(/\\end/y)) break;
      const row = [this.#sum()];
      while (this.#eat(/&/y) !== undefined) row.push(this.#sum());
      rows.push(row);
    } while (this.#eat(/\\\\/y) !== undefined);
    this.#expect(/\\end\s?\{[pbv]matrix\}/y);
    return { kind: "matrix", bars, rows };
  }

  /** sin x, sin^2 x, log_2 8: an argument without parentheses is a product without functions in it. */
  #function(): Formula | undefined {
    const found = this.#eat(FUNCTIONS);
    if (found === undefined) return undefined;
    const name = found.replace("\\", "").toLowerCase();
    const base = name === "log" && this.#eat(/_/y) !== undefined ? this.#argument() : undefined;
    let exponent: Formula | undefined;
    if (this.#eat(/\^/y) !== undefined) {
      exponent = this.#argument();
      // The power -1 of a function is its inverse to most, not its reciprocal.
      if (exponent.kind !== "number") return unreadable();
    }
    const argument = this.#looksAt(/\(|\{/y) ? this.#atom() : this.#bareArgument();
    if (argument.kind === "bracket" || this.#looksAt(/\^|!(?!=)/y)) return unreadable();
    const value = base === undefined
      ? call(name, argument)
      : call("div", call("ln", argument), call("ln", base));
    return exponent === undefined ? value : call("pow", value, exponent);
  }

  #bareArgument(): Formula {
    let argument = this.#power();
    while (this.#atFactor() && !this.#looksAt(FUNCTIONS)) {
      if (this.#looksAt(/[([{|]/y)) return unreadable();
      argument = call("mul", argument, this.#power());
    }
    if (this.#looksAt(DIVISION)) return unreadable();
    return argument;
  }

  /** Up to three letters are a product of variables, more of them one name. */
  #symbol(): Formula {
    const greek = this.#eat(GREEK);
    const word = greek === undefined ? this.#eat(/[A-Za-z]{4,}/y) : undefined;
    const name = greek?.replace(/\\(?:var)?/, "") ?? word?.toLowerCase() ?? this.#eat(/[A-Za-zα-ω]/y);
    if (name === undefined || this.#looksAt(/['′]/y)) return unreadable();
    const index = this.#eat(/_\s?(?:\{[\w\s,]{1,12}\}|\w)/y);
    return {
      kind: "symbol",
      name: index === undefined ? name : `${name}_${index.replaceAll(/[_{}\s]/g, "")}`,
    };
  }

  /** What a command such as \frac takes: a group, or one sign. */
  #argument(): Formula {
    return this.#looksAt(/[{(]/y) ? this.#atom() : this.#single();
  }

  #single(): Formula {
    const digit = this.#eat(/\d/y);
    if (digit !== undefined) return numberOf(digit, "");
    return this.#looksAt(/\\(?:frac|sqrt|pi|infty)(?![a-z])|[√π]/y)
      ? this.#deeper(() => this.#command()!)
      : this.#symbol();
  }

  /** True where a factor may begin that no sign separates from the one before. */
  #atFactor(): boolean {
    if (
      this.#looksAt(
        /\\(?:cup|leq?|geq?|neq?|lt|gt|in|cdot|times|div|pm|mp|end|rangle|not|circ)(?:slant)?(?![a-z])/y,
      )
    ) {
      return false;
    }
    if (this.#looksAt(/\\(?:\}|\\|%)/y)) return false;
    return this.#looksAt(/[\w.(α-ωπ√∞\\[{]/y) || (this.#bars === 0 && this.#looksAt(/\|/y));
  }

  #deeper<T>(read: () => T): T {
    if (++this.#depth > MAX_DEPTH) return unreadable();
    const value = read();
    this.#depth--;
    return value;
  }

  #skip(): void {
    while (this.#text[this.#at] === " ") this.#at++;
  }

  #eat(pattern: RegExp): string | undefined {
    this.#skip();
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#at += match[0].length;
    return match[0];
  }

  #looksAt(pattern: RegExp): boolean {
    this.#skip();
    pattern.lastIndex = this.#at;
    return pattern.test(this.#text);
  }

  #expect(pattern: RegExp): string {
    return this.#eat(pattern) ?? unreadable();
  }
}

function numberOf(integer: string, decimals: string): Formula {
  const digits = (integer + decimals).replace(/^0+/, "").replace(decimals === "" ? /0+$/ : /$/, "").length;
  return {
    kind: "number",
    top: BigInt(integer + decimals || "0"),
    bottom: 10n ** BigInt(decimals.length),
    digits,
  };
}

/** 0.1\overline{6}: the decimals before those that repeat, and these. */
function repeating(integer: string, decimals: string, repeated: string): Formula {
  const nines = 10n ** BigInt(repeated.length) - 1n;
  const bottom = nines * 10n ** BigInt(decimals.length);
  return {
    kind: "number",
    top: BigInt(integer + decimals || "0") * nines + BigInt(repeated),
    bottom,
    digits: 1,
  };
}

function fieldOf(text: string): string {
  const place = "ℝℤℕℚℂ".indexOf(text);
  return place >= 0 ? "RZNQC"[place]! : /[A-Z]/.exec(text)![0];
}

function unreadable(): never {
  throw new UnreadableError();
}
