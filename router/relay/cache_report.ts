import type { CacheReport } from "../worker/placement.ts";

/** Bytes at the end of an answer in which its usage stands, whatever comes behind that. */
const TAIL_BYTES = 1_024;
const QUOTE = 0x22;

const [cachedName, promptName] = ['"cached_tokens":', '"prompt_tokens":'].map((text) =>
  new TextEncoder().encode(text)
) as [Uint8Array, Uint8Array];

/**
 * What an engine says at the end of an answer, or of a stream's last chunk, that it has found of the prompt in its cache;
 * undefined where it does not say. Nothing is parsed: a text that looks the same can mislead a policy, and nobody else.
 */
export function cacheReportIn(bytes: Uint8Array): CacheReport | undefined {
  const cachedTokens = lastNumber(bytes, cachedName);
  const promptTokens = cachedTokens === undefined ? undefined : lastNumber(bytes, promptName);
  if (cachedTokens === undefined || promptTokens === undefined) return undefined;
  return { promptTokens, cachedTokens };
}

function lastNumber(bytes: Uint8Array, name: Uint8Array): number | undefined {
  const first = Math.max(0, bytes.length - TAIL_BYTES);
  for (let at = bytes.length - name.length; at >= first; at--) {
    if (bytes[at] !== QUOTE) continue;
    let same = 1;
    while (same < name.length && bytes[at + same] === name[same]) same++;
    if (same === name.length) return numberAt(bytes, at + same);
  }
  return undefined;
}

function numberAt(bytes: Uint8Array, start: number): number | undefined {
  let at = start;
  while (bytes[at] === 0x20) at++;
  let value: number | undefined;
  for (; at < bytes.length; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) break;
    value = (value ?? 0) * 10 + digit;
  }
  return value;
}
