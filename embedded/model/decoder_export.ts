import { CanopyError } from "../../base/errors.ts";
import {
  readInputs,
  type SessionMetadata,
  type TransformerInputs,
} from "../../ml/onnx/transformer_inputs.ts";

/** Inputs and outputs of an exported decoder with a cache. */
export interface DecoderExport extends TransformerInputs {
  /** The output that holds a logit per token of the vocabulary, [batch, tokens or 1, vocabulary]. */
  readonly logits: { readonly name: string; readonly type: "float32" | "float16" };
}

/**
 * Reads from a model's metadata how it is fed. Throws 500 `unsupported_export`, saying what is missing or not known.
 */
export function readDecoder(source: string, session: SessionMetadata): DecoderExport {
  const refuse = (why: string): CanopyError =>
    new CanopyError(`Cannot generate with ${source}: ${why}`, { code: "unsupported_export", status: 500 });
  const inputs = readInputs(session, refuse);
  if (inputs.cache.length === 0) {
    throw refuse("it has no cache (`past_key_values.*`): use an export for text generation with past");
  }
  const logits = session.outputMetadata.find(({ name }) => name === "logits");
  if (logits === undefined) {
    throw refuse("it gives no `logits`: use an export for text generation, not for feature extraction");
  }
  if (
    !logits.isTensor || (logits.type !== "float32" && logits.type !== "float16") || logits.shape.length !== 3
  ) {
    const form = logits.isTensor ? `${logits.type} with ${logits.shape.length} dimensions` : "no tensor";
    throw refuse(`its output \`logits\` is ${form}; 3 of float are known here`);
  }
  return { ...inputs, logits: { name: logits.name, type: logits.type } };
}
