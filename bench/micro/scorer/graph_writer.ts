import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Random } from "../../../base/random.ts";
import { GraphParts } from "../../../ml/onnx/graph_parts.ts";

/** A tensor as dynamic quantisation leaves it: bytes, their scale and their zero. */
export interface Quantised {
  readonly values: string;
  readonly scale: string;
  readonly zero: string;
}

/** Weights lie in a file of this name beside the model's. */
const WEIGHTS_FILE = "model.onnx_data";

/** Puts a graph together, operator by operator; values are known by generated names. */
export class GraphWriter extends GraphParts {
  readonly #file: number;
  readonly #block: Uint8Array;
  #offset = 0;

  constructor(folder: string) {
    super();
    this.#file = openSync(join(folder, WEIGHTS_FILE), "w");
    const random = new Random("weights");
    this.#block = Uint8Array.from({ length: 1 << 20 }, () => random.uint32() & 255);
  }

  /** Halves along an axis. */
  halves(input: string, axis: number): [string, string] {
    const outputs: [string, string] = [this.name(), this.name()];
    this.nodes.push({ operator: "Split", inputs: [input], outputs, attributes: { axis } });
    return outputs;
  }

  integer(number: number): string {
    return this.constant("int64", [], new Uint8Array(BigInt64Array.of(BigInt(number)).buffer));
  }

  quantise(input: string): Quantised {
    const [values, scale, zero] = [this.name(), this.name(), this.name()];
    this.nodes.push({ operator: "DynamicQuantizeLinear", inputs: [input], outputs: [values, scale, zero] });
    return { values, scale, zero };
  }

  /** A product with random weights of 8 bits and a scale per channel, so that the numbers keep their size. */
  linear({ values, scale, zero }: Quantised, from: number, to: number, output?: string): string {
    // One zero for each product, as exporters have it: ONNX Runtime turns them to unsigned one by one.
    const ofWeights = this.constant("int8", [], new Uint8Array(1));
    const product = this.op("MatMulInteger", [values, this.#weights(from, to), zero, ofWeights]);
    const scales = this.floats(new Float32Array(to).fill(1 / (74 * Math.sqrt(from))), [to]);
    return this.op(
      "Mul",
      [this.op("Cast", [product], { to: 1 }), this.op("Mul", [scale, scales])],
      {},
      output,
    );
  }

  /** Root mean square norm over the last axis, of which `axis` is the number. */
  norm(input: string, axis: number, width: number, output?: string): string {
    const mean = this.op("ReduceMean", [this.op("Mul", [input, input])], { axes: [axis], keepdims: 1 });
    const root = this.op("Sqrt", [this.op("Add", [mean, this.floats([1e-6], [])])]);
    const weight = this.floats(new Float32Array(width).fill(1), [width]);
    return this.op("Mul", [this.op("Div", [input, root]), weight], {}, output);
  }

  close(): void {
    closeSync(this.#file);
  }

  #weights(rows: number, columns: number): string {
    const name = this.name();
    const length = rows * columns;
    for (let left = length; left > 0; left -= this.#block.length) {
      writeSync(this.#file, this.#block.subarray(0, Math.min(left, this.#block.length)));
    }
    const data = { file: WEIGHTS_FILE, offset: this.#offset, length };
    this.constants.push({ name, type: "int8", shape: [rows, columns], data });
    this.#offset += length;
    return name;
  }
}
