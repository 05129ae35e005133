/** True unless the field is absent or `null`, which both mean "not set". */
export function isSet<Value>(value: Value): value is NonNullable<Value> {
  return value !== null && value !== undefined;
}

/** `{name: value}`, or nothing when the value is not set. */
export function ifSet<Name extends string, Value>(
  name: Name,
  value: Value | null | undefined,
): { [K in Name]?: Value } {
  const fields: { [K in Name]?: Value } = {};
  if (isSet(value)) fields[name] = value;
  return fields;
}
