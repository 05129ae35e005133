import { statSync } from "node:fs";
import type { Config } from "../../../cfgs/schema/config.ts";

/** The warning that the folder of reports is not there; undefined where it is, or none is wanted. */
export function reportsWarning({ server: { reports, page } }: Config): string | undefined {
  if (reports === undefined) return undefined;
  if (!page) return `server.reports: ${reports} is listed by no page, since server.page is false`;
  if (statSync(reports, { throwIfNoEntry: false })?.isDirectory() === true) return undefined;
  return `server.reports: ${reports} is no folder here yet: reports are listed once it is`;
}
