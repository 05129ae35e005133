import { lstat, open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { CanopyError, messageOf } from "../../../base/errors.ts";

/** A report in a folder. */
export interface ListedReport {
  /** Of its file. */
  readonly name: string;
  /** As the report names itself; its file's name where it does not. */
  readonly title: string;
  readonly bytes: number;
  /** Unix time in seconds. */
  readonly modified: number;
}

/** Most reports of a list, and the largest one that is given. */
const MAX_LISTED = 500;
const MAX_BYTES = 32 * 1024 * 1024;
/** Of a file's beginning, where its title stands. */
const HEAD_BYTES = 2048;

/** The HTML files of a folder, the newest first. Throws 500 `reports_unreadable` for what is no folder. */
export async function listReports(folder: string): Promise<ListedReport[]> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (cause) {
    const message = `Cannot list the reports in ${folder} (server.reports): ${messageOf(cause)}`;
    throw new CanopyError(message, { code: "reports_unreadable", status: 500, cause });
  }
  const found: Omit<ListedReport, "title">[] = [];
  for (const name of names) {
    const file = await fileOf(folder, name);
    if (file !== undefined) found.push({ name, ...file });
  }
  const newest = found.sort((a, b) => b.modified - a.modified || (a.name < b.name ? -1 : 1));
  const listed: ListedReport[] = [];
  for (const one of newest.slice(0, MAX_LISTED)) {
    listed.push({ ...one, title: await titleOf(join(folder, one.name)) ?? one.name });
  }
  return listed;
}

/** The bytes of a report; undefined for what is none, such as a name that leads elsewhere. */
export async function readReport(folder: string, name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const file = await fileOf(folder, name);
  if (file === undefined) return undefined;
  return new Uint8Array(await readFile(join(folder, name)));
}

/** Undefined for all but plain HTML files in the folder itself: links might lead out of it. */
async function fileOf(
  folder: string,
  name: string,
): Promise<Pick<ListedReport, "bytes" | "modified"> | undefined> {
  if (!/^[^./\\\0][^/\\\0]*\.html$/i.test(name)) return undefined;
  const file = await lstat(join(folder, name)).catch(() => undefined);
  if (file === undefined || !file.isFile() || file.size > MAX_BYTES) return undefined;
  return { bytes: file.size, modified: Math.floor(file.mtimeMs / 1000) };
}

async function titleOf(path: string): Promise<string | undefined> {
  const file = await open(path).catch(() => undefined);
  if (file === undefined) return undefined;
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const title = /<title>([^<]+)<\/title>/i.exec(new TextDecoder().decode(buffer.subarray(0, bytesRead)));
    return title?.[1] === undefined ? undefined : plainText(title[1]).trim() || undefined;
  } finally {
    await file.close();
  }
}

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };

function plainText(html: string): string {
  return html.replace(/&(lt|gt|quot|#39|amp);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
