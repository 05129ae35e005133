import type { Constant, Node } from "./onnx_file.ts";

/** A graph that is put together operator by operator; values are known by generated names. */
export class GraphParts {
  readonly nodes: Node[] = [];
  readonly constants: Constant[] = [];
  #names = 0;

  op(
    operator: string,
    inputs: readonly string[],
    attributes: Node["attributes"] = {},
    output = this.name(),
  ): string {
    this.nodes.push({ operator, inputs, outputs: [output], attributes });
    return output;
  }

  /** ONNX Runtime's fused attention, which turns queries and keys itself, and goes on from a cache. */
  groupQueryAttention(
    inputs: readonly string[],
    presents: readonly string[],
    heads: number,
    cacheHeads: number,
  ): string {
    const output = this.name();
    this.nodes.push({
      operator: "GroupQueryAttention",
      domain: "com.microsoft",
      inputs,
      outputs: [output, ...presents],
      attributes: { num_heads: heads, kv_num_heads: cacheHeads, do_rotary: 1 },
    });
    return output;
  }

  /** Parts of these sizes along an axis. */
  split(value: string, axis: number, sizes: readonly number[]): string[] {
    const outputs = sizes.map(() => this.name());
    const inputs = [value, this.integers(...sizes)];
    this.nodes.push({ operator: "Split", inputs, outputs, attributes: { axis } });
    return outputs;
  }

  floats(numbers: ArrayLike<number>, shape: readonly number[]): string {
    return this.constant("float32", shape, new Uint8Array(Float32Array.from(numbers).buffer));
  }

  integers(...numbers: number[]): string {
    const data = new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
    return this.constant("int64", [numbers.length], data);
  }

  constant(type: Constant["type"], shape: readonly number[], data: Constant["data"]): string {
    const name = this.name();
    this.constants.push({ name, type, shape, data });
    return name;
  }

  protected name(): string {
    return `v${this.#names++}`;
  }
}
