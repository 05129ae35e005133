import { CanopyError, messageOf } from "./errors.ts";

/** The error of a server that cannot listen on an address, with what to do about it; `cause` is the runtime's own. */
export function listenError(host: string, port: number, cause: unknown): CanopyError {
  const { code, advice } = reasonOf(host, cause);
  return new CanopyError(`Cannot listen on ${host}:${port}: ${advice}`, { code, status: 500, cause });
}

function reasonOf(host: string, cause: unknown): { code: string; advice: string } {
  switch (codeOf(cause)) {
    case "EADDRINUSE":
      return {
        code: "address_in_use",
        advice: "the port is taken; choose another one, or stop what uses it",
      };
    case "EACCES":
    case "EPERM":
      return {
        code: "address_refused",
        advice: "the system does not allow it; choose a port of 1024 or more",
      };
    // Deno's own server gives no code for a name that nothing knows.
    case "EADDRNOTAVAIL":
    case "EINVAL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
    case undefined:
      return {
        code: "no_such_address",
        advice: `${host} is no address of this host; take 127.0.0.1, or 0.0.0.0 for all`,
      };
    default:
      return { code: "cannot_listen", advice: messageOf(cause) };
  }
}

function codeOf(cause: unknown): string | undefined {
  if (typeof cause !== "object" || cause === null || !("code" in cause)) return undefined;
  return typeof cause.code === "string" ? cause.code : undefined;
}
