import { messageOf } from "../../base/errors.ts";
import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import { modelOnnxSchema } from "../../cfgs/schema/onnx.ts";
import { findModel } from "../../embedded/model/model_files.ts";
import { readModelProducts } from "../../ml/onnx/model_products.ts";
import { type Arithmetic, PRODUCTS_TEXTS, productsOf } from "../../ml/onnx/products.ts";
import { loadOnnxRuntime } from "../../ml/onnx/runtime.ts";
import { findOnnxFiles } from "../../scorer/embedders/onnx_files.ts";
import type { Io } from "../kit/io.ts";
import type { DoctorFinding } from "./check_workers.ts";

/** Checks that the models that run in this process are on this machine, and says with which arithmetic they compute. */
export async function checkWeights(config: Config, { env }: Io): Promise<DoctorFinding[]> {
  const findings: DoctorFinding[] = [];
  for (const [name, model] of Object.entries(config.models)) {
    if (model.engine === "onnx") findings.push(await checkModel(name, model, env));
  }
  const { embedder } = config.scorer;
  const comparesByModel = embedder === "onnx" || embedder === "auto";
  const scorer = comparesByModel ? await findOnnxFiles(config.scorer, env).catch(() => undefined) : undefined;
  if (scorer !== undefined) {
    findings.push({ subject: "scorer", ...await describe(scorer.path, scorer.path) });
  }
  return findings;
}

async function checkModel(
  name: string,
  { model, onnx }: ModelConfig,
  env: Io["env"],
): Promise<DoctorFinding> {
  const subject = `model ${name} in this process`;
  const { revision, file } = onnx ?? modelOnnxSchema.parse({});
  try {
    const { path, contextTokens } = await findModel({ model, revision, file }, env);
    return { subject, ...await describe(path, `${path}, ${contextTokens} tokens of context`) };
  } catch (error) {
    return { level: "problem", subject, text: messageOf(error) };
  }
}

/** A file with its arithmetic: what is not exact is a warning. */
async function describe(path: string, what: string): Promise<Pick<DoctorFinding, "level" | "text">> {
  try {
    const { products: signed, cpu } = await arithmetic();
    const products = productsOf(readModelProducts(path), "exact", signed);
    const level = products === "saturating" ? "warning" : "ok";
    return { level, text: `${what}, ${PRODUCTS_TEXTS[products]}, on ${cpu}` };
  } catch (error) {
    return { level: "problem", text: `${what}: ${messageOf(error)}` };
  }
}

let known: Promise<Arithmetic> | undefined;

/** This CPU's arithmetic: a try of some milliseconds, made once. */
function arithmetic(): Promise<Arithmetic> {
  return known ??= loadOnnxRuntime().then((runtime) => runtime.arithmetic);
}
