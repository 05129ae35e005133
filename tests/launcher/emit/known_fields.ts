/** What a validator says of `data`, and which fields it never looked at. */
export interface CheckedFields {
  readonly valid: boolean;
  /** As paths. Kubernetes' schemas allow unknown fields, and its servers drop them without a word. */
  readonly unknown: readonly string[];
}

/** Watches which fields a compiled JSON Schema reads: those that it does not know are never read. */
export function checkFields(data: object, validate: (data: unknown) => boolean): CheckedFields {
  const unread: (() => string[])[] = [];
  const watched = <T extends object>(value: T, path: string): T => {
    const seen = new Set<string>();
    const children = new Map<string, unknown>();
    unread.push(() => Object.keys(value).filter((key) => !seen.has(key)).map((key) => `${path}.${key}`));
    return new Proxy(value, {
      get(target, key, receiver) {
        const found: unknown = Reflect.get(target, key, receiver);
        if (typeof key !== "string" || !Object.hasOwn(target, key)) return found;
        seen.add(key);
        if (typeof found !== "object" || found === null) return found;
        if (!children.has(key)) children.set(key, watched(found, `${path}.${key}`));
        return children.get(key);
      },
    });
  };
  const valid = validate(watched(data, ""));
  return { valid, unknown: unread.flatMap((fields) => fields()) };
}
