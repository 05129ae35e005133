import { listField, numberAt, textField } from "./json_fields.ts";

/** A report of the router's folder of reports. */
export interface ReportEntry {
  readonly name: string;
  readonly title: string;
  readonly bytes: number;
  /** Unix time in seconds. */
  readonly modified: number | undefined;
}

/** The reports of an answer of GET /v1/reports. */
export function reportEntries(answer: unknown): readonly ReportEntry[] {
  return listField(answer, "data").map((one) => ({
    name: textField(one, "name"),
    title: textField(one, "title"),
    bytes: numberAt(one, "bytes") ?? 0,
    modified: numberAt(one, "modified"),
  }));
}

/** The path of a report. */
export function pathOfReport(name: string): string {
  return `/v1/reports/${encodeURIComponent(name)}`;
}
