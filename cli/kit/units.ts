/** `1.24 s`, multiplied by the scale. */
export function seconds(ms: number, scale = 1): string {
  const value = ms * scale / 1000;
  return `${value.toFixed(value < 9.995 ? 2 : 1)} s`;
}

/** Bytes as people read them. */
export function sizeText(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
