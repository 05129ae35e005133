import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Bytes of a model: of its `.onnx` file and of those beside it that have its weights (`model.onnx_data`, …). */
export async function weightBytes(path: string): Promise<number> {
  const [folder, name] = [dirname(path), basename(path)];
  const files = (await readdir(folder)).filter((file) => file.startsWith(name));
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
