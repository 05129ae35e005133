import { closeSync, openSync, readSync } from "node:fs";
import { ProtobufReader } from "./protobuf_reader.ts";

/** What a model's file says of its products of 8 bits. */
export interface ModelProducts {
  /** Types of the weights that are multiplied in 8 bits; none where all products are of floats. */
  readonly weights: ReadonlySet<"signed" | "unsigned">;
  /**
   * True when activations are rounded to 8 bits with one scale for all tokens of a call, so that the numbers of each
   * depend on the others.
   */
  readonly scaledPerCall: boolean;
}

/** Operators that multiply in 8 bits, and which of their inputs are the weights. */
const WEIGHTS_OF: Readonly<Record<string, number>> = {
  MatMulInteger: 1,
  MatMulIntegerToFloat: 1,
  DynamicQuantizeMatMul: 1,
  ConvInteger: 1,
  QLinearMatMul: 3,
  QGemm: 3,
};

/** Operators that find one scale for all that they are given. */
const SCALED = new Set(["DynamicQuantizeLinear", "DynamicQuantizeMatMul"]);

/** Field numbers of onnx.proto. */
const MODEL = { graph: 7 } as const;
const GRAPH = { node: 1, constant: 5 } as const;
const NODE = { input: 1, operator: 4, attribute: 5 } as const;
const ATTRIBUTE = { graph: 6, graphs: 11 } as const;
const TENSOR = { type: 2, name: 8 } as const;
const TYPES: ReadonlyMap<number, "signed" | "unsigned"> = new Map([[2, "unsigned"], [3, "signed"]]);

/**
 * Reads an ONNX file, or its bytes, without its weights. Throws `TypeError` for what is no ONNX model. Weights that no
 * constant holds count as signed, the worse case.
 */
export function readModelProducts(model: string | Uint8Array): ModelProducts {
  if (typeof model !== "string") return productsOf(new ProtobufReader((at, into) => copyTo(model, at, into)));
  const file = openSync(model, "r");
  try {
    return productsOf(new ProtobufReader((at, into) => readSync(file, into, 0, into.length, at)));
  } finally {
    closeSync(file);
  }
}

function copyTo(bytes: Uint8Array, at: number, into: Uint8Array): number {
  const part = bytes.subarray(at, at + into.length);
  into.set(part);
  return part.length;
}

interface Found {
  readonly types: Map<string, "signed" | "unsigned">;
  readonly weights: Set<string>;
  scaled: boolean;
}

function productsOf(reader: ProtobufReader): ModelProducts {
  const found: Found = { types: new Map(), weights: new Set(), scaled: false };
  for (const { field, start, end } of reader.fields(0, Infinity)) {
    if (field === MODEL.graph) readGraph(reader, start, end, found);
  }
  const weights = new Set([...found.weights].map((name) => found.types.get(name) ?? "signed"));
  return { weights, scaledPerCall: found.scaled && weights.size > 0 };
}

function readGraph(reader: ProtobufReader, from: number, to: number, found: Found): void {
  for (const { field, start, end } of reader.fields(from, to)) {
    if (field === GRAPH.node) readNode(reader, start, end, found);
    else if (field === GRAPH.constant) readConstant(reader, start, end, found);
  }
}

function readNode(reader: ProtobufReader, from: number, to: number, found: Found): void {
  const inputs: string[] = [];
  let operator = "";
  for (const { field, start, end } of reader.fields(from, to)) {
    if (field === NODE.input) inputs.push(reader.text(start, end));
    else if (field === NODE.operator) operator = reader.text(start, end);
    else if (field === NODE.attribute) {
      // Branches: exports with and without a cache in one file.
      for (const part of reader.fields(start, end)) {
        if (part.field === ATTRIBUTE.graph || part.field === ATTRIBUTE.graphs) {
          readGraph(reader, part.start, part.end, found);
        }
      }
    }
  }
  const weights = inputs[WEIGHTS_OF[operator] ?? -1];
  if (weights !== undefined) found.weights.add(weights);
  found.scaled ||= SCALED.has(operator);
}

function readConstant(reader: ProtobufReader, from: number, to: number, found: Found): void {
  let [name, type] = ["", 0];
  for (const { field, start, end, value } of reader.fields(from, to)) {
    if (field === TENSOR.name) name = reader.text(start, end);
    else if (field === TENSOR.type) type = value;
  }
  const known = TYPES.get(type);
  if (known !== undefined) found.types.set(name, known);
}
