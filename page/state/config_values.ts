import { fieldOf, listField, textField } from "./json_fields.ts";

/** One value of the configuration in effect. */
export interface ConfigValue {
  /** Such as `server.port`. */
  readonly path: string;
  /** As JSON. */
  readonly value: string;
  /** Such as `canopy.jsonc:12`, `--port` or `default`. */
  readonly origin: string;
}

/** The values of an answer of GET /v1/config?origins=true. */
export function configValues(answer: unknown): readonly ConfigValue[] {
  return listField(answer, "data").map((one) => ({
    path: textField(one, "path"),
    value: JSON.stringify(fieldOf(one, "value")) ?? "",
    origin: textField(one, "origin"),
  }));
}

/** What somebody has chosen: all but defaults. */
export function chosenValues(values: readonly ConfigValue[]): readonly ConfigValue[] {
  return values.filter(({ origin }) => origin !== "default");
}

/** The values by the section of the configuration that they are in, in its order. */
export function configSections(
  values: readonly ConfigValue[],
): readonly (readonly [section: string, values: readonly ConfigValue[]])[] {
  return [...Map.groupBy(values, ({ path }) => /^[^.[]*/.exec(path)?.[0] ?? "")];
}
