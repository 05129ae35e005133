import process from "node:process";
import type { InferenceSession, Tensor, TypedTensor } from "onnxruntime-node";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { openEmbeddedLibrary } from "./embedded_library.ts";
import { type ModelProducts, readModelProducts } from "./model_products.ts";
import { type Arithmetic, findProducts, PRODUCTS_MODEL, productsOf } from "./products.ts";
import {
  CHECKED_MODEL,
  outputsStayInPlace,
  runAndCopy,
  runInPlace,
  type RunInto,
  type Tensors,
} from "./run_into.ts";
import { disableTelemetry } from "./telemetry.ts";

export type { InferenceSession, Tensor };

/**
 * Fall-backs, which a thread tells in its log line.
 * `outputs_copied`: each run copies its outputs, such as a decoder's whole cache, which takes as much time again.
 * `products_as_written`: signed weights could not be made unsigned, and their products of 8 bits saturate on this CPU:
 * the model's numbers are wrong.
 */
export type OnnxFallback = "outputs_copied" | "products_as_written";

/** A model that is loaded; `run` hands new outputs to JavaScript, `runInto` writes them to memory that is there. */
export interface OnnxSession
  extends Pick<InferenceSession, "inputNames" | "inputMetadata" | "outputMetadata" | "run" | "release"> {
  /** Writes outputs to the memory of the given tensors. One at a time on a thread. */
  runInto(feeds: Tensors, outputs: Tensors): Promise<void>;
  /** Fall-backs in use; none as a rule. */
  readonly fallbacks: readonly OnnxFallback[];
  readonly arithmetic: Arithmetic;
  /** True when the numbers of a token depend on what else is in its call; see `ModelProducts`. */
  readonly scaledPerCall: boolean;
}

/** The part of onnxruntime-node that is used here. */
export interface OnnxRuntime {
  /** Runs on `threads` threads, which sleep while there is nothing to do. */
  open(model: string | Uint8Array, threads: number): Promise<OnnxSession>;
  /** The arithmetic of signed weights in 8 bits, as `open` has it computed. */
  readonly arithmetic: Arithmetic;
  float32(data: Float32Array, shape: readonly number[]): TypedTensor<"float32">;
  /** Whole numbers of either type. */
  integers(type: "int64" | "int32", data: readonly number[], shape: readonly number[]): Tensor;
  bool(value: boolean, shape: readonly number[]): Tensor;
  /** `bits` are IEEE half-precision numbers. */
  float16(bits: Uint16Array, shape: readonly number[]): Tensor;
}

/** The part of the package onnxruntime-node that `loadOnnxRuntime` needs. */
export interface OnnxBinding extends Pick<typeof import("onnxruntime-node"), "env" | "Tensor"> {
  readonly InferenceSession: {
    create(path: string, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
    create(bytes: Uint8Array, options?: InferenceSession.SessionOptions): Promise<InferenceSession>;
  };
}

/**
 * Loads ONNX Runtime and tries out whether outputs can be written in place. Only on a thread that may be blocked: its
 * calls are synchronous, for as long as a model runs. Throws 500 `onnxruntime_unavailable`.
 */
export async function loadOnnxRuntime(
  load: () => Promise<OnnxBinding> = () => import("onnxruntime-node"),
): Promise<OnnxRuntime> {
  try {
    await disableTelemetry();
    await openEmbeddedLibrary();
    const { env, InferenceSession, Tensor } = await load();
    env.logLevel = "fatal";
    const create: Create = (model, options) =>
      typeof model === "string"
        ? InferenceSession.create(model, options)
        : InferenceSession.create(model, options);
    const checked = await create(CHECKED_MODEL, sessionOptions(1, "exact"));
    const inPlace = await outputsStayInPlace(checked, (numbers) => new Tensor("float32", numbers));
    await checked.release();
    const runInto = inPlace ? runInPlace : runAndCopy;
    const copies: readonly OnnxFallback[] = inPlace ? [] : ["outputs_copied"];
    const arithmetic = await findProducts(
      (products) => create(PRODUCTS_MODEL, sessionOptions(1, products)),
      (numbers, shape) => new Tensor("float32", numbers, shape),
    );
    return {
      arithmetic,
      open: async (model, threads) => {
        const { session, opened } = await openExact(create, model, threads);
        const file = readModelProducts(model);
        const { cpu } = arithmetic;
        const products = productsOf(file, opened, arithmetic.products);
        const fallbacks = products === "saturating" ? [...copies, "products_as_written" as const] : copies;
        return sessionOf(session, runInto, { fallbacks, arithmetic: { cpu, products }, file });
      },
      float32: (data, shape) => new Tensor("float32", data, shape),
      integers: (type, data, shape) =>
        type === "int64"
          ? new Tensor("int64", BigInt64Array.from(data, BigInt), shape)
          : new Tensor("int32", Int32Array.from(data), shape),
      bool: (value, shape) => new Tensor("bool", [value], shape),
      float16: (bits, shape) => {
        const tensor = new Tensor("float16", bits, shape);
        // Where JavaScript has Float16Array the constructor converts to it, and the binding then sees no bytes
        // (microsoft/onnxruntime#26791).
        Reflect.set(tensor, "cpuData", bits);
        return tensor;
      },
    };
  } catch (cause) {
    throw new CanopyError(
      `Cannot load ONNX Runtime on ${process.platform} ${process.arch}: ${
        messageOf(cause)
      }; choose what does not need it (scorer.embedder lexical or http, models on servers)`,
      { code: "onnxruntime_unavailable", status: 500, cause },
    );
  }
}

type Create = (
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
) => Promise<InferenceSession>;

/** Opens a model so that products of 8 bits are exact, if that can be had. */
async function openExact(create: Create, model: string | Uint8Array, threads: number) {
  try {
    return { session: await create(model, sessionOptions(threads, "exact")), opened: "exact" } as const;
  } catch (error) {
    // ONNX Runtime 1.30 cannot make weights unsigned whose zero several operators share.
    if (!messageOf(error).includes("replace the existing tensor")) throw error;
    return {
      session: await create(model, sessionOptions(threads, "as_written")),
      opened: "as_written",
    } as const;
  }
}

function sessionOf(
  session: InferenceSession,
  runInto: RunInto,
  { fallbacks, arithmetic, file }:
    & Pick<OnnxSession, "fallbacks" | "arithmetic">
    & { readonly file: ModelProducts },
): OnnxSession {
  const { inputNames, inputMetadata, outputMetadata } = session;
  return {
    inputNames,
    inputMetadata,
    outputMetadata,
    run: session.run.bind(session),
    runInto: (feeds, outputs) => runInto(session, feeds, outputs),
    release: () => session.release(),
    fallbacks,
    arithmetic,
    scaledPerCall: file.scaledPerCall,
  };
}

/** `exact`: products of 8 bits do not saturate, whatever the CPU. */
function sessionOptions(threads: number, products: "exact" | "as_written"): InferenceSession.SessionOptions {
  return {
    executionProviders: ["cpu"],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    // Lengths vary: patterns of memory would be kept for each, a third more of it.
    enableMemPattern: false,
    // Failures are thrown as well.
    logSeverityLevel: 4,
    extra: {
      session: {
        intra_op: { allow_spinning: "0" },
        // Exports with 8 bits whose embeddings serve as the last matrix, too, make numbers of all of them again in each
        // step; without the special treatment of such operators that is done once.
        disable_quant_qdq: "1",
        // Without VNNI (many servers and desktops) the product of unsigned by signed 8 bits saturates in 16: wrong
        // numbers without a word. With this option signed weights are made unsigned first; elsewhere it changes nothing.
        x64quantprecision: products === "exact" ? "1" : "0",
      },
    },
  };
}
