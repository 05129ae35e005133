import { copied } from "../../base/bytes.ts";
import { bytesField, type Field, floatField, numberField } from "./protobuf.ts";

/** Field numbers are those of onnx.proto. */
const IR_VERSION = 8;

/** Element types by their names in ONNX Runtime. */
const ELEMENT_TYPES = {
  float32: 1,
  uint8: 2,
  int8: 3,
  int32: 6,
  int64: 7,
  float16: 10,
  bfloat16: 16,
} as const;

export type ElementType = keyof typeof ELEMENT_TYPES;

/** A whole number as an attribute; floats are told apart because ONNX tells them apart. */
export type Attribute = number | readonly number[] | { readonly float: number };

/** An input or output of a graph; a dimension is a number or, where it varies, a name. */
export interface Value {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly (number | string)[];
}

/** One operator of a graph. Values are known by their names. */
export interface Node {
  readonly operator: string;
  /** Set for operators that are not ONNX's own. */
  readonly domain?: "com.microsoft" | undefined;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, Attribute>> | undefined;
}

/** A constant of a graph: its little-endian bytes, or where they are in a file beside the model's. */
export interface Constant {
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  readonly data: Uint8Array | { readonly file: string; readonly offset: number; readonly length: number };
}

export interface OnnxGraph {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly nodes: readonly Node[];
  readonly constants?: readonly Constant[] | undefined;
}

/** The graph as the bytes of an ONNX model with operator set 17, and set 1 of ONNX Runtime's own operators. */
export function encodeModel(graph: OnnxGraph): Uint8Array {
  return copied([
    numberField(1, IR_VERSION),
    bytesField(8, [bytesField(1, ""), numberField(2, 17)]),
    bytesField(8, [bytesField(1, "com.microsoft"), numberField(2, 1)]),
    bytesField(7, [
      ...graph.nodes.map((node) => bytesField(1, nodeFields(node))),
      bytesField(2, "canopy"),
      ...(graph.constants ?? []).map((constant) => bytesField(5, constantFields(constant))),
      ...graph.inputs.map((value) => bytesField(11, valueFields(value))),
      ...graph.outputs.map((value) => bytesField(12, valueFields(value))),
    ]),
  ]);
}

function nodeFields(node: Node): Field[] {
  return [
    ...node.inputs.map((name) => bytesField(1, name)),
    ...node.outputs.map((name) => bytesField(2, name)),
    bytesField(4, node.operator),
    ...(node.domain === undefined ? [] : [bytesField(7, node.domain)]),
    ...Object.entries(node.attributes ?? {}).map(([name, value]) =>
      bytesField(5, [bytesField(1, name), ...attributeFields(value)])
    ),
  ];
}

function attributeFields(value: Attribute): Field[] {
  if (typeof value === "number") return [numberField(3, value), numberField(20, 2)];
  if ("float" in value) return [floatField(2, value.float), numberField(20, 1)];
  return [...value.map((item) => numberField(8, item)), numberField(20, 7)];
}

function valueFields({ name, type, shape }: Value): Field[] {
  const dimensions = shape.map((size) =>
    bytesField(1, [typeof size === "number" ? numberField(1, size) : bytesField(2, size)])
  );
  const tensor = [numberField(1, ELEMENT_TYPES[type]), bytesField(2, dimensions)];
  return [bytesField(1, name), bytesField(2, [bytesField(1, tensor)])];
}

function constantFields({ name, type, shape, data }: Constant): Field[] {
  const head = [
    ...shape.map((size) => numberField(1, size)),
    numberField(2, ELEMENT_TYPES[type]),
    bytesField(8, name),
  ];
  if (data instanceof Uint8Array) return [...head, bytesField(9, data)];
  const entry = (key: string, value: string) => bytesField(13, [bytesField(1, key), bytesField(2, value)]);
  return [
    ...head,
    entry("location", data.file),
    entry("offset", String(data.offset)),
    entry("length", String(data.length)),
    numberField(14, 1),
  ];
}
