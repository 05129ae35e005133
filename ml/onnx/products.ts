import type { InferenceSession, Tensor } from "onnxruntime-node";
import { describeCpu } from "./cpu.ts";
import type { ModelProducts } from "./model_products.ts";
import { encodeModel } from "./onnx_file.ts";

/**
 * Products of 8 bits as they are computed. `none`: a model has only products of floats. `exact`: as they are written.
 * `made_unsigned`: exact, because signed weights were made unsigned first. `saturating`: signed weights give wrong
 * numbers on this CPU.
 */
export type Products = "none" | "exact" | "made_unsigned" | "saturating";

/** The arithmetic of a model, for facts, `canopy doctor` and traces. */
export interface Arithmetic {
  /** As `describeCpu` has it. */
  readonly cpu: string;
  readonly products: Products;
}

const DEPTH = 8;
// The largest activation and weight: a sum of two such products is more than 16 bits hold.
const ACTIVATION = 255;
const WEIGHT = 127;

/** The model for `findProducts`: unsigned activations by signed weights, in the form of quantized exports. */
export const PRODUCTS_MODEL = encodeModel({
  inputs: [{ name: "rows", type: "float32", shape: ["rows", DEPTH] }],
  outputs: [{ name: "sums", type: "int32", shape: ["rows", 1] }],
  nodes: [
    { operator: "DynamicQuantizeLinear", inputs: ["rows"], outputs: ["activations", "scale", "zero"] },
    {
      operator: "MatMulInteger",
      inputs: ["activations", "weights", "zero", "weights_zero"],
      outputs: ["sums"],
    },
  ],
  constants: [
    { name: "weights", type: "int8", shape: [DEPTH, 1], data: new Uint8Array(DEPTH).fill(WEIGHT) },
    { name: "weights_zero", type: "int8", shape: [], data: new Uint8Array(1) },
  ],
});

/** A session of `PRODUCTS_MODEL`. */
type ProductsSession = Pick<InferenceSession, "run" | "release">;

/**
 * Finds out by a try how this CPU multiplies unsigned by signed 8 bits, whatever it is called: without VNNI, AVX2 adds
 * two products in 16 bits, which they may exceed.
 */
export async function findProducts(
  open: (products: "exact" | "as_written") => Promise<ProductsSession>,
  tensor: (numbers: Float32Array, shape: readonly number[]) => Tensor,
): Promise<Arithmetic> {
  const isExact = async (how: "exact" | "as_written") => {
    const session = await open(how);
    const rows = tensor(new Float32Array(DEPTH).fill(1), [1, DEPTH]);
    const { sums } = await session.run({ rows }, ["sums"]);
    await session.release();
    return Number(sums?.data[0]) === DEPTH * ACTIVATION * WEIGHT;
  };
  const products = await isExact("as_written")
    ? "exact"
    : await isExact("exact")
    ? "made_unsigned"
    : "saturating";
  return { cpu: describeCpu(), products };
}

/** The products of a model whose file could be opened in one of the two ways, on a CPU with this arithmetic. */
export function productsOf(
  { weights }: ModelProducts,
  opened: "exact" | "as_written",
  cpu: Products,
): Products {
  if (weights.size === 0) return "none";
  if (!weights.has("signed") || cpu === "exact") return "exact";
  return opened === "as_written" ? "saturating" : cpu;
}

/** The arithmetic in words, for log lines and `canopy doctor`. */
export const PRODUCTS_TEXTS: Readonly<Record<Products, string>> = {
  none: "products of floats",
  exact: "exact products of 8 bits",
  made_unsigned:
    "exact products of 8 bits, signed weights made unsigned first since they would saturate on this CPU",
  saturating:
    "products of 8 bits saturate on this CPU, so that numbers are wrong: use a file with unsigned weights (model_uint8) or floats (model)",
};
