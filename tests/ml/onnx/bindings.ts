import * as onnxruntime from "onnxruntime-node";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import type { RunnableSession, Tensors } from "../../../ml/onnx/run_into.ts";
import type { OnnxBinding } from "../../../ml/onnx/runtime.ts";

/** A way in which a binding may hand outputs to JavaScript, made of the one that is there. */
type Run = (session: RunnableSession, feeds: Tensors, outputs: Tensors) => Promise<Tensors>;

/** New outputs, from which no setter keeps the real binding. */
async function fresh(session: RunnableSession, feeds: Tensors, outputs: Tensors): Promise<Tensors> {
  await new Promise((resolve) => setTimeout(resolve));
  const [first = ""] = session.outputNames;
  const setter = Reflect.getOwnPropertyDescriptor(Object.prototype, first);
  Reflect.deleteProperty(Object.prototype, first);
  try {
    return await session.run(feeds, Object.keys(outputs));
  } finally {
    if (setter !== undefined) Reflect.defineProperty(Object.prototype, first, setter);
  }
}

function write(results: Tensors, outputs: Tensors): void {
  for (const [name, { data }] of Object.entries(outputs)) {
    const bytes = (view: Tensor.DataType) => {
      const { buffer, byteOffset, byteLength } = view as Float32Array;
      return new Uint8Array(buffer, byteOffset, byteLength);
    };
    bytes(data).set(bytes(results[name]!.data));
  }
}

/** Bindings that outputs in place cannot be had from as from onnxruntime-node 1.30. */
export const OTHER_BINDINGS: Readonly<Record<string, Run>> = {
  "does not write to the given memory": async (session, feeds, outputs) =>
    Object.freeze({ ...await fresh(session, feeds, outputs) }),
  "writes to the given memory, and copies all the same, without assigning": async (
    session,
    feeds,
    outputs,
  ) => {
    const results = await fresh(session, feeds, outputs);
    write(results, outputs);
    return Object.freeze({ ...results });
  },
  "writes to the given memory, and assigns copies when all are made": async (session, feeds, outputs) => {
    const results = await fresh(session, feeds, outputs);
    write(results, outputs);
    const returned: Record<string, Tensor> = {};
    for (const name of Object.keys(results)) returned[name] = results[name]!;
    return returned;
  },
  "hides what a setter throws": async (session, feeds, outputs) => {
    try {
      return await session.run(feeds, outputs);
    } catch {
      throw new Error("An output could not be assigned");
    }
  },
};

/** A session that runs in another way. */
export function runningBy(run: Run, session: InferenceSession): InferenceSession {
  return new Proxy(session, {
    get: (target, name) => {
      if (name === "run") {
        return (feeds: Tensors, outputs: Tensors | string[]) =>
          Array.isArray(outputs) ? target.run(feeds, outputs) : run(target, feeds, outputs);
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The package as it would be with such a binding. */
export function bindingWith(run: Run): OnnxBinding {
  const { env, InferenceSession, Tensor } = onnxruntime;
  const create = async (model: string | Uint8Array, options?: InferenceSession.SessionOptions) =>
    runningBy(
      run,
      typeof model === "string"
        ? await InferenceSession.create(model, options)
        : await InferenceSession.create(model, options),
    );
  return { env, Tensor, InferenceSession: { create } };
}
