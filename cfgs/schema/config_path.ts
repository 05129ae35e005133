/** A path as people write it: `graphs.moa.layers[0].agents[2].model`, `models["Qwen/Qwen3-8B"].workers`. */
export function formatPath(path: ConfigPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[^.[\]"'\s=]+$/.test(part)) text += text === "" ? part : `.${part}`;
    else text += `[${JSON.stringify(part)}]`;
  }
  return text;
}

/** The reverse of `formatPath`; undefined when the text is not a path. */
export function parsePath(text: string): ConfigPath | undefined {
  const path: (string | number)[] = [];
  const part = /\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|(\.?)([^.[\]"'\s=]+)/y;
  let at = 0;
  while (at < text.length) {
    part.lastIndex = at;
    const match = part.exec(text);
    if (match === null) return undefined;
    at = part.lastIndex;
    const [, index, quoted, dot, name] = match;
    if (index !== undefined) path.push(Number(index));
    else if (quoted !== undefined) {
      const key = unquote(quoted);
      if (key === undefined) return undefined;
      path.push(key);
    } else if (name !== undefined && (dot === ".") === (path.length > 0)) path.push(name);
    else return undefined;
  }
  return path.length === 0 ? undefined : path;
}

/** True when `path` is `ancestor` or lies below it. */
export function isWithin(path: ConfigPath, ancestor: ConfigPath): boolean {
  return ancestor.length <= path.length && ancestor.every((part, at) => part === path[at]);
}

/** Value at a path inside another value; undefined when there is none. */
export function valueAt(value: unknown, path: ConfigPath): unknown {
  let at: unknown = value;
  for (const part of path) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, part)) return undefined;
    at = Object.getOwnPropertyDescriptor(at, part)?.value;
  }
  return at;
}

function unquote(quoted: string): string | undefined {
  try {
    const value: unknown = JSON.parse(quoted);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Place in a configuration: object keys and list indices from the top. */
export type ConfigPath = readonly (string | number)[];
