import { copyFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeSharedOnnx } from "../../bench/laboratory/export/write_onnx.ts";
import { TINY_FOLDER } from "./tiny_model.ts";

/**
 * Writes the tiny Qwen3 with ONNX Runtime's fused attention in place of standard operators, as model builders export
 * for it: float32, its weights those of `model.safetensors`. Returns the path.
 */
export async function writeTinyFused(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "canopy-tiny-fused-"));
  for (const file of ["config.json", "model.safetensors"]) {
    await copyFile(join(TINY_FOLDER, file), join(folder, file));
  }
  return await writeSharedOnnx(folder, "logits");
}
