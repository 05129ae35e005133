import type { Environment } from "../../ml/hub/environment.ts";
import { findExport, type OnnxFiles, type OnnxSource } from "../../ml/hub/onnx_files.ts";

/** Finds an embedding model's files; see `findExport`. */
export function findOnnxFiles(source: OnnxSource, env: Environment): Promise<OnnxFiles | undefined> {
  return findExport(source, env, { verb: "embed", setting: "scorer.file" });
}
