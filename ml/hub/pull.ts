import { mkdir, rename, rm, stat, statfs, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf, systemCodeOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import { type Transport, TransportError } from "../../base/transport.ts";
import { ChecksumError, fetchBlob } from "./blob.ts";
import { hubFolder, type HubKind, snapshotFolder } from "./cache.ts";
import { HubClient, HubError, type HubFile, pageOf } from "./client.ts";
import { type Environment, hubCache, hubEndpoint, hubIsOffline } from "./environment.ts";

const MAX_INFO_BYTES = 64 * 1024 * 1024;

/** A model or a data set to fetch, and the way to it. */
export interface PullOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN`. */
  readonly env: Environment;
  /** Hub id. */
  readonly model: string;
  /** `model` by default. */
  readonly kind?: HubKind | undefined;
  readonly revision: string;
  /** Picks from the names of all files of the model. Throws when what it needs is not there. */
  choose(names: readonly string[]): readonly string[];
  /** Called while files come. */
  onProgress(progress: PullProgress): void;
}

/** Progress of one file. */
export interface PullProgress {
  readonly file: string;
  /** From 1 on. */
  readonly index: number;
  readonly files: number;
  /** Bytes of this file on disk, and its size where the Hub tells it. */
  readonly bytes: number;
  readonly size: number | undefined;
}

/** Result of `pullModel`. */
export interface Pulled {
  /** The folder with the files. */
  readonly folder: string;
  readonly files: readonly string[];
  /** Number of files that were not in the cache before. */
  readonly fetched: number;
}

/**
 * Fetches files of a model into the Hub's cache on this machine, in the layout of Hugging Face's own programs, which
 * find them there. Files that are in the cache already are not fetched again.
 * Throws `hub_offline`, `model_gated`, `model_not_found` (400; `dataset_…` for data sets), `hub_unreachable`, `checksum_mismatch` (502) and
 * `disk_full` (500).
 */
export async function pullModel(options: PullOptions): Promise<Pulled> {
  const { env, model, revision } = options;
  if (hubIsOffline(env)) {
    const folder = await snapshotFolder(hubCache(env), model, revision, options.kind);
    throw failure(
      400,
      "hub_offline",
      `Cannot fetch ${model}: HF_HUB_OFFLINE forbids it${
        folder === undefined ? "" : `; in the cache is ${folder}`
      }`,
    );
  }
  try {
    return await pull(options);
  } catch (error) {
    options.signal.throwIfAborted();
    throw explained(options, error);
  }
}

/** Bytes of the files that `pullModel` would have in the end. Throws as it does. */
export async function pullSize(options: Omit<PullOptions, "clock" | "onProgress">): Promise<number> {
  try {
    const { client, chosen } = await chooseFiles(options);
    let bytes = 0;
    for (const file of chosen) bytes += (await factsOf(client, options.model, file)).size ?? 0;
    return bytes;
  } catch (error) {
    options.signal.throwIfAborted();
    throw explained(options, error);
  }
}

async function pull(options: PullOptions): Promise<Pulled> {
  const { env, model, signal, clock } = options;
  const { commit, client, chosen } = await chooseFiles(options);
  const folder = hubFolder(hubCache(env), model, options.kind);
  const snapshot = join(folder, "snapshots", commit);
  await mkdir(snapshot, { recursive: true });
  let fetched = 0;
  for (const [index, file] of chosen.entries()) {
    const link = join(snapshot, file);
    const facts = await factsOf(client, model, file);
    const etag = etagOf(facts, file);
    const blob = join(folder, "blobs", etag);
    const onBytes = (bytes: number) =>
      options.onProgress({ file, index: index + 1, files: chosen.length, bytes, size: facts.size });
    if (!await exists(blob)) {
      if (await exists(link)) continue;
      await checkSpace(folder, facts, file);
      const url = client.addressOf(file);
      await fetchBlob({ client, clock, signal, url, path: blob, etag, size: facts.size, onBytes });
      fetched++;
    }
    await linkTo(blob, link);
  }
  const ref = join(folder, "refs", options.revision);
  if (commit !== options.revision) {
    await mkdir(dirname(ref), { recursive: true });
    await writeFile(ref, commit);
  }
  return { folder: snapshot, files: chosen, fetched };
}

type ChoiceOptions = Pick<
  PullOptions,
  "transport" | "env" | "model" | "kind" | "revision" | "choose" | "signal"
>;

/** The chosen files, and a client for them at one commit, whatever happens to the branch meanwhile. */
async function chooseFiles(
  { transport, env, model, kind, revision, choose, signal }: ChoiceOptions,
): Promise<{ commit: string; client: HubClient; chosen: readonly string[] }> {
  const token = env["HF_TOKEN"] || undefined;
  const hub = { transport, endpoint: hubEndpoint(env), id: model, kind, token, signal };
  const { commit, names } = await modelInfo(new HubClient({ ...hub, revision }));
  return { commit, client: new HubClient({ ...hub, revision: commit }), chosen: choose(names) };
}

async function factsOf(client: HubClient, model: string, file: string): Promise<HubFile> {
  const facts = await client.head(file);
  if (facts === undefined) throw failure(400, "model_not_found", `${model} has no file ${file}`);
  return facts;
}

async function modelInfo(client: HubClient): Promise<{ commit: string; names: string[] }> {
  const response = await client.get(client.infoAddress);
  const info: unknown = response === undefined
    ? undefined
    : JSON.parse(await readText(response.body, MAX_INFO_BYTES, "its list of files"));
  const { sha, siblings } = isJsonObject(info) ? info : {};
  if (typeof sha !== "string" || !/^[0-9a-f]{7,64}$/.test(sha) || !Array.isArray(siblings)) {
    throw new Error(`${client.infoAddress} does not list its files`);
  }
  const names = siblings.flatMap((one) =>
    isJsonObject(one) && typeof one["rfilename"] === "string" ? [one["rfilename"]] : []
  );
  // Names become paths.
  return { commit: sha, names: names.filter((name) => !/^\/|\\|(^|\/)\.\.?(\/|$)/.test(name)) };
}

function etagOf({ etag }: HubFile, file: string): string {
  if (etag !== undefined && /^[\w-]{1,128}$/.test(etag)) return etag;
  throw new Error(`it gives no etag for ${file}, which names it in the cache`);
}

async function checkSpace(folder: string, { size }: HubFile, file: string): Promise<void> {
  if (size === undefined) return;
  // Not all file systems tell.
  const free = await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => Infinity);
  if (free >= size) return;
  throw failure(
    500,
    "disk_full",
    `Cannot fetch ${file}: it has ${megabytes(size)}, and ${folder} has room for ${megabytes(free)}: ` +
      "set HF_HOME to a folder on a larger disk",
  );
}

/** A link, as the Hub's cache has it; where links are not allowed, the file itself. */
async function linkTo(blob: string, link: string): Promise<void> {
  await mkdir(dirname(link), { recursive: true });
  await rm(link, { force: true });
  try {
    await symlink(relative(dirname(link), blob), link);
  } catch (error) {
    // Another program has just made it.
    if (systemCodeOf(error) !== "EEXIST") await rename(blob, link);
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

function explained(
  { model, kind = "model", revision, env }: Pick<PullOptions, "model" | "kind" | "revision" | "env">,
  error: unknown,
): CanopyError {
  if (CanopyError.is(error)) return error;
  const endpoint = hubEndpoint(env);
  if (error instanceof HubError) {
    if (error.hubCode === "GatedRepo" || error.status === 403) {
      const why = error.hasToken ? "the token in HF_TOKEN has no access to it" : "HF_TOKEN is not set";
      return failure(
        400,
        `${kind}_gated`,
        `Cannot fetch ${model}: its authors give access on request, and ${why}: ask for access on ` +
          `${endpoint}/${pageOf(model, kind)}, and set HF_TOKEN to a token of your account`,
      );
    }
    if (error.hubCode === "RevisionNotFound") {
      return failure(400, `${kind}_not_found`, `Cannot fetch ${model}: it has no revision ${revision}`);
    }
    if (error.status === 401 || error.status === 404) {
      return failure(
        400,
        `${kind}_not_found`,
        `Cannot fetch ${model}: ${endpoint} has no such ${kind === "model" ? "model" : "data set"}${
          error.hasToken ? "" : " that can be seen without HF_TOKEN"
        }: check its name`,
      );
    }
  }
  if (error instanceof ChecksumError) {
    return failure(
      502,
      "checksum_mismatch",
      `Cannot fetch ${model}: what came is not the file that ${endpoint} names: ${error.message}; try again, or ` +
        "another mirror with HF_ENDPOINT",
    );
  }
  if (systemCodeOf(error) === "ENOSPC" || systemCodeOf(error) === "EDQUOT") {
    return failure(
      500,
      "disk_full",
      `Cannot fetch ${model}: the disk of ${
        hubCache(env)
      } is full: make room and run it again, which goes on where ` +
        "it ended, or set HF_HOME to a folder on a larger disk",
    );
  }
  if (systemCodeOf(error) !== undefined) {
    return failure(500, "cannot_write", `Cannot fetch ${model}: ${messageOf(error)}`);
  }
  const hint = error instanceof TransportError ? ": check the network, or set HF_ENDPOINT to a mirror" : "";
  return new CanopyError(`Cannot fetch ${model} from ${endpoint}: ${messageOf(error)}${hint}`, {
    code: "hub_unreachable",
    status: 502,
    cause: error,
  });
}

function failure(status: number, code: string, message: string): CanopyError {
  return new CanopyError(message, { code, status });
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}
