/** Step of an engine between its start and its first answer. */
export type StartPhase = "starting" | "downloading" | "loading" | "capturing" | "warming";

/** Progress of a start, as one line of an engine's log shows it. */
export interface StartSign {
  readonly phase: StartPhase;
  /** Part of the phase that is done, in percent. */
  readonly percent: number | undefined;
}

/**
 * Lines by which vLLM 0.6 to 0.32 and SGLang 0.4 to 0.5.23 show where they are, read in their sources and in logs of
 * real starts. Both use progress bars of tqdm, whose lines hold a percentage. Of docker: the layers of an image.
 */
const SIGNS: readonly (readonly [StartPhase, RegExp])[] = [
  [
    "downloading",
    /\bFetching \d+ files|\bDownloading\b|: (?:Pulling fs layer|Download complete|Pull complete)|model-\d+-of-\d+\.safetensors:\s+\d+%|Time spent downloading/,
  ],
  [
    "loading",
    /Starting to load model|Loading (?:safetensors|pt) checkpoint shards|Load weight begin|-thread loading shards|Loading weights/,
  ],
  [
    "capturing",
    /Capturing (?:CUDA graph|batches)|Capture .*(?:CUDA|cuda) graph.* begin|Capture cuda graph begin|torch\.compile|Dynamo bytecode transform|Compiling a graph|Capturing cudagraphs/,
  ],
  ["warming", /Application startup complete|Start of (?:pd )?disaggregation warmup|warmup with status/],
];

/** Progress that a line shows; undefined for other lines. */
export function startSign(line: string): StartSign | undefined {
  for (const [phase, pattern] of SIGNS) {
    if (!pattern.test(line)) continue;
    const percent = /(\d{1,3})%/.exec(line)?.[1];
    return { phase, percent: percent === undefined ? undefined : Math.min(100, Number(percent)) };
  }
  return undefined;
}

/** Failures that are recognised. */
export type FailureKind =
  | "gated_model"
  | "model_not_found"
  | "hub_unreachable"
  | "disk_full"
  | "shared_memory"
  | "port_taken"
  | "driver_too_old"
  | "no_driver"
  | "no_container_gpu"
  | "no_container_daemon"
  | "no_image"
  | "unknown_option"
  | "unsupported_model"
  | "unsupported_gpu"
  | "not_installed"
  | "gpu_in_use"
  | "cache_too_small"
  | "no_memory_for_cache"
  | "out_of_memory";

/** A failure, as a log shows it. */
export interface LoggedFailure {
  readonly kind: FailureKind;
  /** Groups of the pattern: sizes, options. */
  readonly details: readonly string[];
}

/**
 * Words of the failures, causes before effects: what ends an engine makes other parts of it fail.
 * vLLM also says "Port 5600 is already in use, trying port 5601", which is none.
 */
const FAILURES: readonly (readonly [FailureKind, RegExp])[] = [
  [
    "gated_model",
    /Cannot access gated repo|trying to access a gated repo|is a gated repository|GatedRepoError/,
  ],
  [
    "model_not_found",
    /Repository Not Found|RepositoryNotFoundError|not a valid model identifier|does not appear to have a file named config\.json|ensure the presence of a 'config\.json'|Repo id must (?:be|use)|Can't load the configuration of|Unrecognized model in/,
  ],
  [
    "hub_unreachable",
    /couldn't connect to '?http|Cannot find an appropriate cached snapshot|LocalEntryNotFoundError|OfflineModeIsEnabled|Failed to establish a new connection: .*huggingface/,
  ],
  [
    "shared_memory",
    /unable to (?:open|allocate|mmap) shared memory|\/dev\/shm.*No space left|shm_broadcast.*No space left/,
  ],
  ["disk_full", /No space left on device|Not enough free disk space|Disk quota exceeded|ENOSPC/i],
  ["port_taken", /address already in use|\[Errno 98\]|EADDRINUSE|the port is taken/i],
  [
    "driver_too_old",
    /driver on your system is too old|CUDA driver version is insufficient|unsupported toolchain/,
  ],
  [
    "no_driver",
    /Found no NVIDIA driver|NVML Shared Library Not Found|libcuda\.so(?:\.1)?: cannot open|Failed to infer device type|No CUDA GPUs are available|not compiled with CUDA|no CUDA-capable device|No accelerator \(.*\) is available/,
  ],
  ["no_container_gpu", /could not select device driver|nvidia-container-cli: initialization error/],
  ["no_container_daemon", /Cannot connect to the Docker daemon|permission denied .*docker/i],
  ["no_image", /pull access denied|manifest unknown|manifest for .* not found|invalid reference format/],
  ["unknown_option", /error: unrecognized arguments: (.+)$/],
  ["unknown_option", /error: (argument --?[\w-]+.*)$/],
  ["unknown_option", /Unknown option (--[\w-]+)/],
  [
    "unsupported_model",
    /does not recognize this architecture|Model architectures .* (?:are not supported|failed to be inspected)|is not a supported (?:model )?architecture/,
  ],
  [
    "unsupported_gpu",
    /compute capability of at least|no kernel image is available|requires .*compute capability/,
  ],
  ["not_installed", /No module named '?(vllm|sglang)\b/],
  [
    "gpu_in_use",
    /Free memory on device \S+ \(([\d.]+)\/([\d.]+) GiB\) on startup is less than/,
  ],
  ["cache_too_small", /estimated maximum model length is (\d+)/],
  ["cache_too_small", /larger than the available KV cache|larger than the maximum number of tokens/],
  [
    "no_memory_for_cache",
    /No available memory for the cache blocks|Not enough memory\. Please try to increase|leave no GPU memory for the KV cache/,
  ],
  ["out_of_memory", /(?:CUDA|HIP) out of memory|OutOfMemoryError|CUDA error: out of memory/],
];

/** The failure that lines of a log show; undefined when they show none that is known. */
export function loggedFailure(lines: readonly string[]): LoggedFailure | undefined {
  for (const [kind, pattern] of FAILURES) {
    for (const line of lines) {
      const match = pattern.exec(line);
      if (match !== null) return { kind, details: match.slice(1) };
    }
  }
  return undefined;
}
