import { z } from "zod";
import { type Config, configSchema } from "../schema/config.ts";
import { unwrap } from "../schema/walk.ts";

/**
 * A configuration as JSONC that loads to the same configuration; what equals a default is left out.
 * Keys that `api_key_env` has looked up are not written; those that the source had in the open are.
 */
export function toCanopy(config: Config): string {
  const { server } = config;
  const written = withoutDefaults(configSchema, {
    ...config,
    server: server.limits === undefined
      ? server
      : { ...server, limits: { ...server.limits, keys: withoutLookedUp(server.limits.keys) } },
    models: withoutLookedUp(config.models),
  });
  return `${JSON.stringify(written, null, 2)}\n`;
}

function withoutLookedUp(
  holders: Readonly<Record<string, { readonly api_key?: unknown; readonly api_key_env?: unknown }>>,
): object {
  return Object.fromEntries(
    Object.entries(holders).map(([name, holder]) => {
      const { api_key, ...open } = holder;
      return [name, holder.api_key_env === undefined && api_key !== undefined ? holder : open];
    }),
  );
}

/** A value without the parts that its schema would fill in by itself. */
function withoutDefaults(schema: unknown, value: unknown): unknown {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodUnion) {
    const option = inner.options.find((option: unknown) =>
      option instanceof z.ZodType && option.safeParse(value).success
    );
    return withoutDefaults(option, value);
  }
  if (Array.isArray(value)) {
    return inner instanceof z.ZodArray ? value.map((item) => withoutDefaults(inner.element, item)) : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (inner instanceof z.ZodRecord) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, withoutDefaults(inner.valueType, item)]),
    );
  }
  if (!(inner instanceof z.ZodObject)) return value;
  const shape: Record<string, unknown> = inner.shape;
  const kept = Object.entries(value).filter(([key, item]) =>
    item !== undefined && !(Object.hasOwn(shape, key) && isDefault(shape[key], item))
  );
  return Object.fromEntries(
    kept.map(([key, item]) => [key, Object.hasOwn(shape, key) ? withoutDefaults(shape[key], item) : item]),
  );
}

function isDefault(schema: unknown, value: unknown): boolean {
  if (!(schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)) return false;
  return canonical(schema.parse(undefined)) === canonical(value);
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(
    value,
    (_, item: unknown) =>
      typeof item === "object" && item !== null && !Array.isArray(item)
        ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0))
        : item,
  );
}
