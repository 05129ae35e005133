import type { InferenceSession, Tensor } from "onnxruntime-node";
import { encodeModel, type Value } from "./onnx_file.ts";

/** The part of a session that runs a model. */
export type RunnableSession = Pick<InferenceSession, "run" | "outputNames">;

/** Tensors by the names of inputs or outputs. */
export type Tensors = Readonly<Record<string, Tensor>>;

/**
 * Runs a model that writes its outputs to the memory of the tensors that it is given. Throws what the model's run
 * throws. One at a time on a thread.
 */
export type RunInto = (session: RunnableSession, feeds: Tensors, outputs: Tensors) => Promise<void>;

/**
 * Keeps onnxruntime-node 1.30 from copying every output to new memory, also one that was given memory
 * (microsoft/onnxruntime#32346 would change that). Of a decoder that is the whole cache in each step: as much time as
 * the step itself takes, and hundreds of megabytes of garbage. `outputsStayInPlace` tells whether it works.
 */
export const runInPlace: RunInto = async (session, feeds, outputs) => {
  await runStopped(session, feeds, outputs);
};

/** Relies on nothing but the results of a run, and copies them to the memory of the outputs. */
export const runAndCopy: RunInto = async (session, feeds, outputs) => {
  const results = await session.run(feeds, outputs);
  for (const [name, { data: to }] of Object.entries(outputs)) {
    const from = results[name]?.data;
    if (from !== to) bytesOf(to).set(bytesOf(from));
  }
};

const CHECKED_OUTPUTS = ["canopy_check_sum", "canopy_check_difference"] as const;
const checkedValue = (name: string): Value => ({ name, type: "float32", shape: [2] });

/** The model for `outputsStayInPlace`: sum and difference of two vectors. */
export const CHECKED_MODEL = encodeModel({
  inputs: ["a", "b"].map(checkedValue),
  outputs: CHECKED_OUTPUTS.map(checkedValue),
  nodes: [
    { operator: "Add", inputs: ["a", "b"], outputs: [CHECKED_OUTPUTS[0]] },
    { operator: "Sub", inputs: ["a", "b"], outputs: [CHECKED_OUTPUTS[1]] },
  ],
});

/**
 * True when `runInPlace` does what it is for with the binding of a session of `CHECKED_MODEL`: the given memory is
 * written, and no output is copied but the first.
 */
export async function outputsStayInPlace(
  session: RunnableSession,
  tensor: (numbers: Float32Array) => Tensor,
): Promise<boolean> {
  const [sum, difference] = [new Float32Array(2), new Float32Array(2)];
  const outputs = { [CHECKED_OUTPUTS[0]]: tensor(sum), [CHECKED_OUTPUTS[1]]: tensor(difference) };
  const a = tensor(Float32Array.of(5, 7));
  const { dims } = a;
  // Only what is assigned in the very call that reads the inputs is assigned by the binding, before further copies.
  let inCall = false;
  Reflect.defineProperty(a, "dims", {
    get: () => {
      inCall = true;
      queueMicrotask(() => inCall = false);
      return dims;
    },
  });
  let stoppedInCall = false;
  try {
    const results = await runStopped(session, { a, b: tensor(Float32Array.of(1, 2)) }, outputs, () => {
      stoppedInCall = inCall;
    });
    const copied = results === undefined
      ? !stoppedInCall
      : Object.entries(outputs).some(([name, { data }]) => results[name]?.data !== data);
    return !copied && [...sum, ...difference].join() === "6,9,4,5";
  } catch {
    return false;
  }
}

/** Thrown to the binding, and out of it again, when the outputs are written. */
const WRITTEN = new Error("The outputs are written");

/**
 * Runs a model and stops the binding before it copies the second output. It copies when the model has run, one output
 * after the other, and assigns each to a new object under its name, so a setter of the first one's name on
 * `Object.prototype` can stop it; it is there for this one call, in a thread that runs models and nothing else. Gives
 * undefined when the run was stopped, else its results.
 */
async function runStopped(
  session: RunnableSession,
  feeds: Tensors,
  outputs: Tensors,
  onStop = () => {},
): Promise<Tensors | undefined> {
  const [first] = session.outputNames;
  // What is done in JavaScript is done at once; the binding is called in a later turn.
  const running = session.run(feeds, outputs);
  if (first === undefined || !Object.hasOwn(outputs, first)) return await running;
  Reflect.defineProperty(Object.prototype, first, {
    configurable: true,
    set: () => {
      onStop();
      throw WRITTEN;
    },
  });
  try {
    return await running;
  } catch (error) {
    if (error !== WRITTEN) throw error;
    return undefined;
  } finally {
    Reflect.deleteProperty(Object.prototype, first);
  }
}

function bytesOf(data: Tensor.DataType | undefined): Uint8Array {
  if (!ArrayBuffer.isView(data)) throw new TypeError("The output is no array of numbers");
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
