import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { anchorOf, code, markdownTable, paragraph } from "./markdown.ts";

/** What a JSON Schema says of numbers that have no bound of their own. */
const UNBOUND = Number.MAX_SAFE_INTEGER;

/** How the sections of a schema are written. */
export interface SectionOptions {
  /** Anchor of what a `$ref` points to; undefined: it is called `any JSON`. */
  readonly anchorOfRef?: (ref: string) => { readonly name: string; readonly anchor: string } | undefined;
  /** What the name of a member of a map is called under a path; `NAME` by default. */
  readonly memberName?: string;
}

/** A part of a page: one object of a schema, all of whose fields stand in one table. */
export interface SchemaSection {
  readonly heading: string;
  readonly text: string;
}

/**
 * The objects of JSON Schemas as sections, the outer before the inner, each field with its values, its default and what
 * it means. An object that stands in several places has one section, at the first of them.
 */
export class SchemaSections {
  readonly #options: SectionOptions;
  readonly #headings = new Map<string, string>();
  readonly #taken = new Set<string>();

  constructor(options: SectionOptions = {}) {
    this.#options = options;
  }

  /** The sections of an object, or of objects one of which it is, at a path; without those that earlier calls gave. */
  sectionsOf(path: string, schema: JsonObject): SchemaSection[] {
    const inner: [path: string, schema: JsonObject][] = [];
    this.#taken.add(anchorOf(path));
    if (!hasFields(schema)) {
      const text = paragraph(`${this.#valuesOf(path, schema, inner)}.`);
      return [{ heading: path, text }, ...inner.flatMap(([at, object]) => this.sectionsOf(at, object))];
    }
    const required = Array.isArray(schema["required"]) ? schema["required"] : [];
    const rows = Object.entries(objectsIn(schema["properties"])).map(([name, field]) => {
      const values = this.#valuesOf(
        path === "" ? name : `${path.replace(/ with .*/, "")}.${name}`,
        field,
        inner,
      );
      return [code(name), values, required.includes(name) ? "required" : defaultOf(field), meaningOf(field)];
    });
    const meaning = meaningOf(schema);
    const table = rows.length === 0 ? "" : markdownTable(["field", "value", "default", "meaning"], rows);
    const rest = isJsonObject(schema["additionalProperties"]) && rows.length > 0
      ? "Further fields may be given."
      : "";
    const text = [meaning === "" ? "" : paragraph(`${meaning}.`), table, rest].filter((part) => part !== "");
    const section = { heading: path, text: text.join("\n\n") };
    return [section, ...inner.flatMap(([at, object]) => this.sectionsOf(at, object))];
  }

  /** What may be written there; objects with fields of their own get a section, which is linked. */
  #valuesOf(path: string, schema: JsonObject, inner: [string, JsonObject][]): string {
    const forms = formsOf(schema);
    if (forms.length > 1) {
      const isAmbiguous = forms.filter(hasFields).length > 1;
      const words = forms.map((form) =>
        this.#valuesOf(isAmbiguous && hasFields(form) ? `${path} with ${marksOf(form)}` : path, form, inner)
      );
      return [...new Set(words)].join(" or ");
    }
    const [form = schema] = forms;
    const { type, items, additionalProperties: others } = form;
    if (typeof form["$ref"] === "string") return this.#referred(form["$ref"]);
    if (type === "array") {
      return `list of ${isJsonObject(items) ? this.#valuesOf(`${path}[]`, items, inner) : "anything"}`;
    }
    if (hasFields(form)) return `[object](#${this.#anchorOf(path, form, inner)})`;
    if (type === "object" && isJsonObject(others) && Object.keys(others).length > 0) {
      const { memberName = "NAME" } = this.#options;
      return `object of ${this.#valuesOf(`${path}.${memberName}`, others, inner)}, by name`;
    }
    return plainValues(form);
  }

  #referred(ref: string): string {
    const target = this.#options.anchorOfRef?.(ref);
    return target === undefined ? "any JSON" : `[${target.name}](#${target.anchor})`;
  }

  #anchorOf(path: string, schema: JsonObject, inner: [string, JsonObject][]): string {
    const { description: _, default: __, ...rest } = schema;
    const key = JSON.stringify(rest);
    const known = this.#headings.get(key);
    if (known !== undefined) return known;
    const heading = [path, `${path} with ${marksOf(schema)}`].find((one) => !this.#taken.has(anchorOf(one)));
    if (heading === undefined) throw new Error(`Cannot write the reference: two objects at ${path}`);
    const anchor = anchorOf(heading);
    this.#taken.add(anchor);
    this.#headings.set(key, anchor);
    inner.push([heading, schema]);
    return anchor;
  }
}

/** The forms that a value may have: those of a union, flat, and each of several types. */
function formsOf(schema: JsonObject): JsonObject[] {
  const union = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(union)) return union.filter(isJsonObject).flatMap(formsOf);
  const all = schema["allOf"];
  if (Array.isArray(all) && all.length === 1 && isJsonObject(all[0])) return formsOf(all[0]);
  const { type } = schema;
  return Array.isArray(type) ? type.map((one) => ({ ...schema, type: one })) : [schema];
}

function hasFields(schema: JsonObject): boolean {
  return Object.keys(objectsIn(schema["properties"])).length > 0;
}

/** What tells a form of an object from the others: its constant member, or its first one that is required. */
function marksOf(schema: JsonObject): string {
  const fields = Object.entries(objectsIn(schema["properties"]));
  const constants = fields.filter(([, field]) => field["const"] !== undefined);
  const constant = constants.find(([name]) => name === "type") ?? constants[0];
  if (constant !== undefined) return `${constant[0]} ${constant[1]["const"]}`;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return required.length === 0 ? fields[0]?.[0] ?? "" : required.join(", ");
}

function plainValues(schema: JsonObject): string {
  const { type, format, enum: choices } = schema;
  if (schema["const"] !== undefined) return code(JSON.stringify(schema["const"]));
  if (Array.isArray(choices)) return choices.map((one) => code(JSON.stringify(one))).join(", ");
  if (type === "integer" || type === "number") {
    return `${type === "integer" ? "whole number" : "number"}${boundsOf(schema)}`;
  }
  if (type === "string") return format === "uri" ? "URL" : "text";
  if (type === "boolean") return "`true`, `false`";
  if (type === "null") return "`null`";
  if (isJsonObject(schema["not"])) return "nothing";
  return type === "object" ? "object" : "anything";
}

function boundsOf(schema: JsonObject): string {
  const of = (name: string) => {
    const bound = schema[name];
    return typeof bound === "number" && Math.abs(bound) < UNBOUND ? bound : undefined;
  };
  const [least, most, above, below] = [
    of("minimum"),
    of("maximum"),
    of("exclusiveMinimum"),
    of("exclusiveMaximum"),
  ];
  if (least !== undefined && most !== undefined) return ` from ${least} to ${most}`;
  const parts = [
    least === undefined ? "" : `at least ${least}`,
    above === undefined ? "" : `above ${above}`,
    most === undefined ? "" : `at most ${most}`,
    below === undefined ? "" : `below ${below}`,
  ].filter((part) => part !== "");
  return parts.length === 0 ? "" : `, ${parts.join(", ")}`;
}

/** The default where it says something: what an object is filled with stands in its own table. */
function defaultOf(schema: JsonObject): string {
  const value = schema["default"];
  return value === undefined || isJsonObject(value) ? "" : code(JSON.stringify(value));
}

/** The description of a schema, of the first of its forms that has one where it has none itself. */
function meaningOf(schema: JsonObject): string {
  const own = schema["description"];
  if (typeof own === "string") return own;
  const union = schema["anyOf"] ?? schema["oneOf"];
  const forms = Array.isArray(union) ? union.filter(isJsonObject) : [];
  return forms.map(meaningOf).find((text) => text !== "") ?? "";
}

function objectsIn(value: Json | undefined): Record<string, JsonObject> {
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => isJsonObject(one) ? [[name, one]] : []),
  );
}
