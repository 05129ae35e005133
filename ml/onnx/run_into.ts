import type { InferenceSession, Tensor } from "./runtime.ts";

/** Thrown to the binding, and out of it again, when the outputs are written. */
const WRITTEN = new Error("The outputs are written");

/**
 * Runs a model that writes its outputs to memory that it is given, and hands them to JavaScript in no other way.
 * Throws what the model's run throws. One at a time on a thread.
 *
 * onnxruntime-node 1.30 copies every output to new memory, also one that was given memory
 * (microsoft/onnxruntime#32346 would change that). Of a decoder that is the whole cache in each step: as much time as the
 * step itself takes, and hundreds of megabytes of garbage. The binding copies when the model has run, one output after
 * the other, and assigns each to a new object under its name. So a setter of the first one's name can stop it. It is
 * there for this one call, in a thread that runs models and nothing else; a binding that does not copy will not meet it.
 */
export async function runInto(
  session: InferenceSession,
  feeds: Readonly<Record<string, Tensor>>,
  outputs: Readonly<Record<string, Tensor>>,
): Promise<void> {
  const first = session.outputNames[0]!;
  // What is done in JavaScript is done at once; the binding is called in a later turn.
  const running = session.run(feeds, outputs);
  if (Object.hasOwn(outputs, first)) {
    Reflect.defineProperty(Object.prototype, first, {
      configurable: true,
      set: () => {
        throw WRITTEN;
      },
    });
  }
  try {
    await running;
  } catch (error) {
    if (error !== WRITTEN) throw error;
  } finally {
    Reflect.deleteProperty(Object.prototype, first);
  }
}
