import type { TopLevelSpec } from "vega-lite";

/** One table of a report; its first column names the rows. */
export interface ReportTable {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A text that is shown as it is. */
export interface ReportListing {
  readonly title: string;
  readonly text: string;
}

/** A plot beside the first one. */
export interface ReportPlot {
  /** Part of its file's name. */
  readonly name: string;
  readonly title: string;
  readonly plot: TopLevelSpec;
}

/** A result as it is shown to people and written to files. */
export interface Report {
  readonly title: string;
  /** Origin of the figures: simulated or measured, and on what. Stands on every plot. */
  readonly origin: string;
  readonly tables: readonly ReportTable[];
  /** Notes for readers of the tables: a sentence each. */
  readonly notes: readonly string[];
  readonly plot: TopLevelSpec;
  /** Further plots, below the tables. */
  readonly plots?: readonly ReportPlot[] | undefined;
  /** Where pages with more of it lie, seen from an HTML page, and what they are. */
  readonly pages?: { readonly path: string; readonly text: string } | undefined;
  /** Texts that pages and Markdown show as they are, such as the file that a report was made from. */
  readonly listings?: readonly ReportListing[] | undefined;
  /** For a JSON file. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** 1234.5 → `1.23 s`, 45.6 → `45.6 ms`. */
export function durationText(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  return ms >= 999.5 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(1)} ms`;
}

/** 0.345 → `34.5 %`. */
export function shareText(share: number, digits = 1): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–";
}

/** 1.0345 → `1.034`. */
export function ratioText(ratio: number): string {
  return Number.isFinite(ratio) ? ratio.toFixed(3) : "–";
}

/** 1234567 → `1,234,567`. */
export function countText(count: number): string {
  return Number.isFinite(count) ? Math.round(count).toLocaleString("en-US") : "–";
}
