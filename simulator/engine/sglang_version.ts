/** Versions by what they do differently; each is written as 1000 x minor + patch of 0.minor.patch. */
export const SGLANG = {
  /** Output ids are cumulative in streams. */
  cumulativeIds: 5_006,
  /** Calls of chunks have a null where newer ones have no field; so have times in `meta_info`. */
  sparseShapes: 5_018,
  /** `--incremental-streaming-output`: text and ids of an event are both only what is new. */
  incrementalStream: 5_010,
  /** Aborts and errors inside a stream are events; room 0 is never completed; the registry knows new names. */
  errorEvents: 5_010,
  /** A prompt sent with the fake bootstrap host is not kept in the prefix tree. */
  fakeHostForgets: 5_011,
  /** Prefill and decode tell each other when they give a request up. */
  legsNotify: 5_013,
  /** The cached prefix is sent to decode before the rest is computed. */
  sendsPrefixEarly: 5_015,
  /** A prompt in computation can be aborted. */
  abortsPrefill: 5_018,
  /** The newest shapes. */
  newest: 5_023,
} as const;

/** A version as one number: 0.5.10.post1 is 5010. */
export function versionNumber(version: string): number {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map((part) => Number.parseInt(part) || 0);
  return (major * 1000 + minor) * 1000 + patch;
}
