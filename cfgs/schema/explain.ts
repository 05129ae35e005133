import { z } from "zod";
import { didYouMean, quoteList } from "../../base/nearest.ts";
import { type ConfigPath, formatPath, valueAt } from "./config_path.ts";
import { isSecretPath, shownSecret } from "./secrets.ts";
import { describeSchema, keysOf, schemasAt, unwrap } from "./walk.ts";

/** A problem at one place of a value; the file and line are added by the loader. */
export interface ConfigFinding {
  readonly severity: "error" | "warning";
  readonly path: ConfigPath;
  /** True when the key is at fault, not the value. */
  readonly atKey: boolean;
  readonly value: unknown;
  readonly message: string;
}

/** A finding about the value at a path; `what` follows the path in its sentence. */
export function findingAt(
  path: ConfigPath,
  what: string,
  { value, severity = "error" }: { readonly value?: unknown; readonly severity?: ConfigFinding["severity"] } =
    {},
): ConfigFinding {
  return { severity, path, atKey: false, value, message: `${formatPath(path)} ${what}` };
}

/** Words about a name that is none of those known: `is "x": expected one of "y"; did you mean "y"?` */
export function notOneOf(given: string, known: readonly string[]): string {
  return `is ${JSON.stringify(given)}: expected one of ${quoteList(known)}${didYouMean(given, known)}`;
}

/** `PATH is VALUE: expected …` */
export function wrongValue(path: ConfigPath, value: unknown, expected: string): ConfigFinding {
  const message = value === undefined
    ? `${formatPath(path)} is missing: expected ${expected}`
    : `${formatPath(path) || "the configuration"} is ${showValue(value, path)}: expected ${expected}`;
  return { severity: "error", path, atKey: false, value: shownSecret(value, path), message };
}

/** `PATH is not a known key; did you mean …?` */
export function unknownKey(path: ConfigPath, value: unknown, known: readonly string[]): ConfigFinding {
  const hint = didYouMean(String(path.at(-1)), known) || `: expected one of ${known.join(", ")}`;
  return {
    severity: "error",
    path,
    atKey: true,
    value: shownSecret(value, path),
    message: `${formatPath(path)} is not a known key${hint}`,
  };
}

/** A value as a sentence shows it: JSON, cut to 60 characters; secrets as `***`. */
export function showValue(value: unknown, path: ConfigPath): string {
  if (isSecretPath(path)) return "***";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value === "object" && value !== null) {
    return Object.keys(value).length === 0
      ? "an empty object"
      : `an object with ${quoteList(Object.keys(value))}`;
  }
  const text = JSON.stringify(shownSecret(value, path)) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…"` : text;
}

/** Checks a value against a schema and says in plain sentences what is wrong; empty when nothing is. */
export function explain(schema: z.ZodType, value: unknown, path: ConfigPath = []): ConfigFinding[] {
  const result = schema.safeParse(value);
  if (result.success) return [];
  const findings: ConfigFinding[] = [];
  const explained = new Set<string>();
  for (const issue of result.error.issues) {
    const issuePath = issue.path.map((part) => typeof part === "symbol" ? String(part) : part);
    const union = firstUnion(schema, issuePath);
    if (union === undefined) {
      findings.push(...explainIssue(issue, issuePath, { schema, value, path }));
      continue;
    }
    const key = JSON.stringify(union.path);
    if (explained.has(key)) continue;
    explained.add(key);
    findings.push(...explainUnion(union.schema, valueAt(value, union.path), [...path, ...union.path]));
  }
  return withoutEchoes(findings);
}

/** The union nearest to the top that an issue lies in or below. */
function firstUnion(
  schema: unknown,
  path: ConfigPath,
): { readonly schema: z.ZodUnion; readonly path: ConfigPath } | undefined {
  for (let length = 0; length <= path.length; length++) {
    const at = path.slice(0, length);
    for (const candidate of schemasAt(schema, at)) {
      const inner = unwrap(candidate);
      if (inner instanceof z.ZodUnion) return { schema: inner, path: at };
    }
  }
  return undefined;
}

/** Explains against the option that the value looks most like. */
function explainUnion(union: z.ZodUnion, value: unknown, path: ConfigPath): ConfigFinding[] {
  const rated = union.options.filter((option) => option instanceof z.ZodType).map((option) => {
    const result = option.safeParse(value);
    const issues = result.success ? [] : result.error.issues;
    const misfits = issues.filter((issue) =>
      (issue.code === "unrecognized_keys" && issue.path.length === 0) ||
      (issue.path.length === 1 && valueAt(value, [String(issue.path[0])]) === undefined)
    );
    return { option, misfits: misfits.length, fits: sameKind(unwrap(option), value) };
  }).filter((rating) => rating.fits);
  const best = rated.reduce<typeof rated[number] | undefined>(
    (best, next) => best === undefined || next.misfits < best.misfits ? next : best,
    undefined,
  );
  const findings = best === undefined ? [] : explain(best.option, value, path);
  return findings.length > 0 ? findings : [wrongValue(path, value, describeSchema(union))];
}

function sameKind(schema: unknown, value: unknown): boolean {
  if (schema instanceof z.ZodObject || schema instanceof z.ZodRecord) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }
  if (schema instanceof z.ZodArray) return Array.isArray(value);
  if (schema instanceof z.ZodString || schema instanceof z.ZodURL) return typeof value === "string";
  if (schema instanceof z.ZodNumber) return typeof value === "number";
  if (schema instanceof z.ZodEnum) return typeof value === "string";
  return false;
}

/** Explains an issue at `issuePath` inside a checked value, which itself stands at `checked.path`. */
function explainIssue(
  issue: z.core.$ZodIssue,
  issuePath: ConfigPath,
  checked: { readonly schema: unknown; readonly value: unknown; readonly path: ConfigPath },
): ConfigFinding[] {
  const { schema, value } = checked;
  const path = [...checked.path, ...issuePath];
  const given = valueAt(value, issuePath);
  const target = schemasAt(schema, issuePath)[0];
  if (issue.code === "unrecognized_keys") {
    const known = keysOf(target);
    return issue.keys.map((key) => unknownKey([...path, key], valueAt(given, [key]), known));
  }
  if (issue.code === "invalid_key") {
    return [wrongValue(path, String(path.at(-1)), "a name that is not empty")];
  }
  // What its members may not be together says the rule itself.
  if (issue.code === "custom" && typeof given === "object") {
    return [findingAt(path, issue.message, { value: given })];
  }
  const own = typeof given === "string" ? ownWords(issue) : undefined;
  return own === undefined
    ? [wrongValue(path, given, expectation(issue, target, given))]
    : [findingAt(path, `is ${showValue(given, path)}: ${own}`, { value: shownSecret(given, path) })];
}

/** What the schema itself says of a text that breaks one of its rules; undefined where that is Zod's general sentence. */
function ownWords({ code, message }: z.core.$ZodIssue): string | undefined {
  return code === "custom" || (code === "invalid_format" && !message.startsWith("Invalid"))
    ? message
    : undefined;
}

function expectation(issue: z.core.$ZodIssue, target: unknown, given: unknown): string {
  const unit = "origin" in issue && issue.origin === "array" ? " entries" : "";
  if (issue.code === "too_small" && given !== undefined) {
    if (issue.origin === "string") return "a text that is not empty";
    if (issue.origin === "array") {
      return `at least ${issue.minimum} ${issue.minimum === 1 ? "entry" : "entries"}`;
    }
    return issue.inclusive === false ? `more than ${issue.minimum}` : `at least ${issue.minimum}`;
  }
  if (issue.code === "too_big") {
    return `${issue.inclusive === false ? "less than" : "at most"} ${issue.maximum}${unit}`;
  }
  const described = describeSchema(target);
  if (issue.code === "invalid_value" && typeof given === "string") {
    const options = issue.values.filter((option) => typeof option === "string");
    return `${described}${didYouMean(given, options)}`;
  }
  return described;
}

/** A missing key is no news when a key beside it is that one, misspelt. */
function withoutEchoes(findings: readonly ConfigFinding[]): ConfigFinding[] {
  const misspelt = findings.filter((finding) => finding.atKey);
  return findings.filter((finding) =>
    finding.value !== undefined || finding.atKey ||
    !misspelt.some((other) =>
      formatPath(other.path.slice(0, -1)) === formatPath(finding.path.slice(0, -1)) &&
      other.message.endsWith(`did you mean "${finding.path.at(-1)}"?`)
    )
  );
}
