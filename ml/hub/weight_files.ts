import { CanopyError } from "../../base/errors.ts";
import { ONNX_FILE_NAMES } from "./onnx_files.ts";

/** Files that describe a tokenizer and a model; the first is required. */
const DESCRIPTIONS = [
  "tokenizer.json",
  "tokenizer_config.json",
  "config.json",
  "special_tokens_map.json",
  "generation_config.json",
  "chat_template.jinja",
];

/**
 * The files that an exported model needs to run, out of the names of all its files: the ONNX file (`wanted`, else the
 * one that a CPU runs fastest), the weights that lie beside it, and its tokenizer. Throws 400 `weights_unavailable` when
 * one of them is missing.
 */
export function weightFiles(model: string, names: readonly string[], wanted?: string): string[] {
  const all = new Set(names);
  // Written beside models that generate, and beside no others.
  const use = all.has("generation_config.json") ? "generate" : "embed";
  const onnx = wanted ??
    ONNX_FILE_NAMES[use].flatMap((name) => [`onnx/${name}`, name]).find((name) => all.has(name)) ??
    onlyOf(names.filter((name) => name.endsWith(".onnx")));
  if (onnx === undefined || !all.has(onnx)) {
    const files = names.filter((name) => name.endsWith(".onnx"));
    throw unavailable(
      wanted === undefined
        ? `${model} has ${
          files.length === 0
            ? "no ONNX file: choose a model with one, such as its ONNX export"
            : `several ONNX files of unknown names: name one with --file: ${files.join(", ")}`
        }`
        : `${model} has no file ${wanted}${files.length === 0 ? "" : `: there are ${files.join(", ")}`}`,
    );
  }
  const folder = onnx.includes("/") ? onnx.slice(0, onnx.lastIndexOf("/") + 1) : "";
  const descriptions = DESCRIPTIONS.flatMap((name) =>
    [`${folder}${name}`, name].find((path) => all.has(path)) ?? []
  );
  if (!descriptions.some((name) => name.endsWith("tokenizer.json"))) {
    throw unavailable(`${model} has no tokenizer.json`);
  }
  const outside = names.filter((name) => name.startsWith(`${onnx}_data`) || name.startsWith(`${onnx}.data`));
  return [...descriptions, ...outside, onnx];
}

function onlyOf(names: readonly string[]): string | undefined {
  return names.length === 1 ? names[0] : undefined;
}

function unavailable(why: string): CanopyError {
  return new CanopyError(`Cannot fetch weights: ${why}`, { code: "weights_unavailable", status: 400 });
}
