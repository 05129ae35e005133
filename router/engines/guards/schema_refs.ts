import { isJsonObject } from "../../../base/json.ts";

/** Objects of a schema that are looked at; a larger one is left to the engine. */
const MAX_VISITS = 10_000;

/**
 * True when a JSON schema has a `$ref` that leads, by references alone, back to itself: such a schema describes
 * nothing, and grammar compilers that follow it never end. Recursion through properties or items is fine.
 */
export function refersOnlyToItself(schema: unknown): boolean {
  const open: unknown[] = [schema];
  for (let visits = 0; open.length > 0 && visits < MAX_VISITS; visits++) {
    const part = open.pop();
    if (isJsonObject(part)) {
      if (loops(schema, part)) return true;
      for (const value of Object.values(part)) open.push(value);
    } else if (Array.isArray(part)) open.push(...part);
  }
  return false;
}

function loops(root: unknown, start: unknown): boolean {
  const seen = new Set<unknown>();
  let part = start;
  while (isJsonObject(part) && typeof part.$ref === "string") {
    if (seen.has(part)) return true;
    seen.add(part);
    part = resolve(root, part.$ref);
  }
  return false;
}

/** The part of a schema that a local JSON pointer names. */
function resolve(root: unknown, ref: string): unknown {
  if (!ref.startsWith("#")) return undefined;
  let part = root;
  for (const step of ref.slice(1).split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(part)) part = part[Number(name)];
    else part = isJsonObject(part) && Object.hasOwn(part, name) ? part[name] : undefined;
  }
  return part;
}
