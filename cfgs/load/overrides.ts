import { configSchema } from "../schema/config.ts";
import { type ConfigPath, formatPath, isWithin, parsePath } from "../schema/config_path.ts";
import { type ConfigFinding, explain } from "../schema/explain.ts";
import { keysOf, schemasAt } from "../schema/walk.ts";

/** A value that takes the place of the file's, such as a flag's. */
export interface Override {
  /** Such as `server.port` or `models["Qwen/Qwen3-8B"].workers[0]`. */
  readonly path: string;
  /** A text is read as JSON where that fits, else as it is, else as a list separated by commas. */
  readonly value: unknown;
  /** Flag that the user wrote it with, such as `--port`. */
  readonly origin: string;
}

/** An override that was put in place. */
export interface AppliedOverride {
  readonly path: ConfigPath;
  readonly kind: "env" | "flag";
  /** The environment variable or the flag. */
  readonly name: string;
}

/** A finding about an override: it has no such path, or cannot be put there. */
export interface OverrideFinding extends ConfigFinding {
  readonly origin: string;
}

interface PendingOverride extends AppliedOverride {
  readonly candidates: readonly unknown[];
}

/** The outcome of applying overrides to a value. */
export interface Overridden {
  readonly value: unknown;
  readonly applied: readonly AppliedOverride[];
  readonly problems: readonly OverrideFinding[];
}

/**
 * Applies environment variables, then flags (which thus win), to a config value.
 * `CANOPY_SERVER_PORT` sets `server.port`; below other sections two underscores stand between the keys:
 * `CANOPY_MODELS__4B__WORKERS__0`. Keys are compared without case, and without regard to `-`, `.` and `/`.
 */
export function applyOverrides(
  value: unknown,
  env: Readonly<Record<string, string | undefined>>,
  flags: readonly Override[],
): Overridden {
  const problems: OverrideFinding[] = [];
  const applied: AppliedOverride[] = [];
  let current = value;
  const put = ({ path, kind, name, candidates }: PendingOverride) => {
    const outcomes = candidates.map((candidate) => setAt(current, path, candidate));
    const first = outcomes[0];
    if (first === undefined || typeof first === "string") {
      const message = `${formatPath(path)} cannot be set: ${first ?? "there is no value"}`;
      problems.push({ severity: "error", path, atKey: false, value: undefined, message, origin: name });
      return;
    }
    const chosen = outcomes.find((outcome) =>
      typeof outcome === "object" &&
      !explain(configSchema, outcome.value).some((finding) => isWithin(finding.path, path))
    );
    current = typeof chosen === "object" ? chosen.value : first.value;
    applied.push({ path, kind, name });
  };

  for (const name of Object.keys(env).sort()) {
    const text = env[name];
    const path = text === undefined ? undefined : envPath(name, current);
    if (path !== undefined) put({ path, kind: "env", name, candidates: candidatesOf(text) });
  }
  for (const flag of flags) {
    const path = parsePath(flag.path);
    if (path === undefined) {
      const message = `${
        JSON.stringify(flag.path)
      } is not a path such as server.port or graphs.moa.layers[0]`;
      problems.push({
        severity: "error",
        path: [],
        atKey: false,
        value: flag.path,
        message,
        origin: flag.origin,
      });
    } else put({ path, kind: "flag", name: flag.origin, candidates: candidatesOf(flag.value) });
  }
  return { value: current, applied, problems };
}

/** The override that decided what stands at a path, if one did. */
export function overrideOf(
  applied: readonly AppliedOverride[],
  path: ConfigPath,
): AppliedOverride | undefined {
  return applied.findLast((override) => isWithin(path, override.path));
}

/** Meanings that a text may have: JSON, the text itself, a list. Any other value has one. */
function candidatesOf(value: unknown): unknown[] {
  if (typeof value !== "string") return [value];
  const candidates: unknown[] = [];
  try {
    candidates.push(JSON.parse(value));
  } catch {
    // Not JSON: the text itself is meant.
  }
  candidates.push(value, value.split(",").map((item) => item.trim()).filter((item) => item !== ""));
  return candidates;
}

const SECTIONS: Readonly<Record<string, string>> = { SERVER: "server", SCORER: "scorer" };

/** The path that an environment variable sets; undefined when it is not one of ours. */
function envPath(name: string, value: unknown): ConfigPath | undefined {
  const rest = /^CANOPY_(.+)$/.exec(name)?.[1];
  if (rest === undefined) return undefined;
  const single = /^([A-Za-z]+)_(?!_)(.+)$/.exec(rest);
  const section = SECTIONS[single?.[1]?.toUpperCase() ?? ""];
  const parts = section !== undefined && single?.[2] !== undefined
    ? [section, ...single[2].split("__")]
    : rest.split("__");
  const path: (string | number)[] = [];
  let at = value;
  for (const part of parts) {
    if (part === "") return undefined;
    if (Array.isArray(at) && /^\d+$/.test(part)) {
      path.push(Number(part));
      at = at[Number(part)];
      continue;
    }
    const there = typeof at === "object" && at !== null ? Object.keys(at) : [];
    const known = schemasAt(configSchema, path).flatMap(keysOf);
    const key = [...there, ...known].find((key) => plain(key) === plain(part));
    if (key === undefined && path.length === 0) return undefined;
    const isList = schemasAt(configSchema, path).length > 0 && known.length === 0 && /^\d+$/.test(part) &&
      !there.length && endsInList(path);
    path.push(key ?? (isList ? Number(part) : part.toLowerCase()));
    at = typeof at === "object" && at !== null && key !== undefined && Object.hasOwn(at, key)
      ? Object.getOwnPropertyDescriptor(at, key)?.value
      : undefined;
  }
  // A section alone (`CANOPY_SERVER`) is somebody else's variable.
  return path.length < 2 ? undefined : path;
}

/** True when the schema has a list at a path: a number after it is then an index. */
function endsInList(path: ConfigPath): boolean {
  return schemasAt(configSchema, [...path, 0]).length > 0 &&
    schemasAt(configSchema, [...path, "0"]).length === 0;
}

function plain(key: string): string {
  return key.toUpperCase().replace(/[^A-Z0-9]/g, "_");
}

/** A copy of `value` in which `leaf` stands at `path`; a sentence when there is no such place. */
function setAt(value: unknown, path: ConfigPath, leaf: unknown): { value: unknown } | string {
  const [part, ...rest] = path;
  if (part === undefined) return { value: leaf };
  if (part === "__proto__") return `"__proto__" cannot be used as a key`;
  if (typeof part === "number") {
    const list = value === undefined ? [] : value;
    if (!Array.isArray(list)) return `the index [${part}] needs a list, and there is none`;
    if (part > list.length) {
      return `the index [${part}] is beyond the end of the list, which has ${list.length} entries`;
    }
    const inner = setAt(list[part], rest, leaf);
    return typeof inner === "string" ? inner : { value: list.toSpliced(part, 1, inner.value) };
  }
  if (value !== undefined && (typeof value !== "object" || value === null || Array.isArray(value))) {
    return `the key ${JSON.stringify(part)} needs an object, and there is ${
      Array.isArray(value) ? "a list" : JSON.stringify(value)
    }`;
  }
  const object: Record<string, unknown> = { ...value };
  const inner = setAt(Object.hasOwn(object, part) ? object[part] : undefined, rest, leaf);
  return typeof inner === "string" ? inner : { value: { ...object, [part]: inner.value } };
}
