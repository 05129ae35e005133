/** `1,234`, without rounding; `–` for what is not known. */
export function wholeNumber(value: number | undefined): string {
  return value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: 6 });
}

/** `12.5 %`. */
export function percent(share: number): string {
  return `${(share * 100).toLocaleString("en", { maximumFractionDigits: 1 })} %`;
}

/** `980 ms`, `1.25 s`; `–` for what is not known. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(ms < 100_000 ? 2 : 0)} s`;
}

/** Figures as decisions have them: at most four digits behind the point. */
export function figure(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 4 });
}

/** A cost in the unit of the prices, with as many digits as the server gives. */
export function costText(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 12 });
}

/** A time of the day, from unix time in seconds. */
export function clockTime(unixSeconds: number | undefined): string {
  return unixSeconds === undefined ? "–" : new Date(unixSeconds * 1_000).toLocaleString("en-GB");
}
