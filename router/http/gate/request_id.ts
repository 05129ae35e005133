import type { Random } from "../../../base/random.ts";

const NAMES = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"];
/** Anything that can stand in a header and a log line. */
const USABLE = /^[\x21-\x7e]{1,128}$/;

/** The request's id: the first usable one that the client sent, else a new one. */
export function requestId(headers: Headers, random: Random): string {
  for (const name of NAMES) {
    const id = headers.get(name);
    if (id !== null && USABLE.test(id)) return id;
  }
  return `req_${random.hex(24)}`;
}
