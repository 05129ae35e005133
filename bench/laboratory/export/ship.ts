// Puts trained models where the program ships them: deno run -A bench/laboratory/export/ship.ts FROM
// FROM has the folders s, m, l and embedding, each with its safetensors, config.json and tokenizer.

import { copyFile, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { writeInt8Onnx, writeSharedOnnx } from "./write_onnx.ts";

const [from] = process.argv.slice(2);
if (from === undefined) throw new Error("Name the folder with the trained models");
const shipped = fileURLToPath(new URL("../../../models/laboratory/", import.meta.url));
for (const name of ["s", "m", "l", "embedding"]) {
  const folder = join(shipped, name);
  await mkdir(folder, { recursive: true });
  for (const file of await readdir(join(from, name))) {
    if (/\.(json|jinja|safetensors)$/.test(file)) await copyFile(join(from, name, file), join(folder, file));
  }
  const gives = name === "embedding" ? "features" : "logits";
  await writeSharedOnnx(folder, gives);
  await writeInt8Onnx(folder, gives);
}
