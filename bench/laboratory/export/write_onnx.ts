import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CanopyError } from "../../../base/errors.ts";
import { encodeModel } from "../../../ml/onnx/onnx_file.ts";
import { readQwen3Config } from "./qwen3_config.ts";
import { qwen3Graph, type Weights } from "./qwen3_graph.ts";
import { readSafetensors, type StoredTensor, tensorNumbers } from "./safetensors.ts";

const WEIGHTS_FILE = "model.safetensors";

/**
 * Writes `model.onnx` beside a Qwen3's `model.safetensors`: some kB, since its weights are those of that file, which
 * ONNX Runtime finds by their offsets. They are made float32 when they are loaded. Returns the path.
 */
export async function writeSharedOnnx(folder: string, gives: "logits" | "features"): Promise<string> {
  const tensors = readSafetensors(join(folder, WEIGHTS_FILE));
  const weights: Weights = (name, graph) => {
    const { type, shape, offset, length } = tensorOf(tensors, name);
    const stored = graph.constant(type, shape, { file: WEIGHTS_FILE, offset, length });
    return type === "float32" ? stored : graph.op("Cast", [stored], { to: 1 });
  };
  return await write(folder, "model.onnx", { gives, weights });
}

/**
 * Writes `onnx/model_int8.onnx`: matrices in 8 bits with a scale a row, made float32 when they are loaded, so that the
 * numbers do not depend on the CPU. Returns the path.
 */
export async function writeInt8Onnx(folder: string, gives: "logits" | "features"): Promise<string> {
  const path = join(folder, WEIGHTS_FILE);
  const tensors = readSafetensors(path);
  const file = await readFile(path);
  const weights: Weights = (name, graph) => {
    const tensor = tensorOf(tensors, name);
    const numbers = tensorNumbers(file, tensor);
    const [rows = 0, columns] = tensor.shape;
    if (columns === undefined) return graph.floats(numbers, tensor.shape);
    const { values, scales } = roundRows(numbers, rows, columns);
    const inputs = [graph.constant("int8", tensor.shape, values), graph.floats(scales, [rows])];
    return graph.op("DequantizeLinear", inputs, { axis: 0 });
  };
  await mkdir(join(folder, "onnx"), { recursive: true });
  return await write(folder, join("onnx", "model_int8.onnx"), { gives, weights });
}

/** Whole numbers from −127 to 127, and the number by which those of each row are multiplied. */
function roundRows(
  numbers: Float32Array,
  rows: number,
  columns: number,
): { readonly values: Uint8Array; readonly scales: Float32Array } {
  const values = new Int8Array(numbers.length);
  const scales = new Float32Array(rows);
  for (let row = 0; row < rows; row++) {
    const of = numbers.subarray(row * columns, (row + 1) * columns);
    const scale = of.reduce((largest, number) => Math.max(largest, Math.abs(number)), 0) / 127 || 1;
    scales[row] = scale;
    values.set(of.map((number) => Math.round(number / scale)), row * columns);
  }
  return { values: new Uint8Array(values.buffer), scales };
}

async function write(
  folder: string,
  name: string,
  { gives, weights }: { readonly gives: "logits" | "features"; readonly weights: Weights },
): Promise<string> {
  const config = readQwen3Config(await readFile(join(folder, "config.json"), "utf8"));
  const path = join(folder, name);
  await writeFile(path, encodeModel(qwen3Graph(config, weights, gives)));
  return path;
}

/** A tensor by its name without the prefix that models with a last matrix have. */
function tensorOf(tensors: ReadonlyMap<string, StoredTensor>, name: string): StoredTensor {
  const found = tensors.get(`model.${name}`) ?? tensors.get(name);
  if (found === undefined) {
    throw new CanopyError(`Cannot export a model: its weights have no ${name}`, {
      code: "unsupported_weights",
      status: 400,
    });
  }
  return found;
}
