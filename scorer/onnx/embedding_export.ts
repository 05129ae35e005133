import { CanopyError } from "../../base/errors.ts";
import {
  readInputs,
  type SessionMetadata,
  type TensorMetadata,
  type TransformerInputs,
} from "../../ml/onnx/transformer_inputs.ts";

/** Inputs and output of an exported embedding model. Without a cache texts are embedded in one go. */
export interface EmbeddingExport extends TransformerInputs {
  /** The output that holds a row of features for each token, [batch, tokens, dimensions]. */
  readonly hidden: { readonly name: string; readonly type: "float32" | "float16" };
}

const HIDDEN_NAMES = ["last_hidden_state", "hidden_states", "token_embeddings"];

/**
 * Reads a model's inputs and output from its metadata. Throws 500 `unsupported_export`, saying what is missing or not
 * known.
 */
export function readExport(source: string, session: SessionMetadata): EmbeddingExport {
  const refuse = (why: string): CanopyError =>
    new CanopyError(`Cannot embed with ${source}: ${why}`, { code: "unsupported_export", status: 500 });
  const hidden = hiddenOf(session.outputMetadata.filter((value) => value.isTensor), refuse);
  return { ...readInputs(session, refuse), hidden };
}

function hiddenOf(
  outputs: readonly TensorMetadata[],
  refuse: (why: string) => CanopyError,
): EmbeddingExport["hidden"] {
  const hidden = HIDDEN_NAMES.map((name) => outputs.find((output) => output.name === name)).find((output) =>
    output !== undefined
  );
  if (hidden === undefined) {
    const names = outputs.filter(({ name }) => !name.startsWith("present")).map(({ name }) => `\`${name}\``);
    throw refuse(
      `it gives ${names.join(", ") || "nothing"}, but no row of features per token (${
        HIDDEN_NAMES.map((name) => `\`${name}\``).join(", ")
      }); use an export for feature extraction`,
    );
  }
  const { name, type, shape } = hidden;
  if ((type !== "float32" && type !== "float16") || shape.length !== 3) {
    throw refuse(
      `its output \`${name}\` is ${type} with ${shape.length} dimensions; 3 of float are known here`,
    );
  }
  return { name, type };
}
