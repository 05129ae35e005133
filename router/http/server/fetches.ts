/** An app as a server needs it: `fetch` as web servers have it. */
export interface Fetches {
  /** `env`: what the runtime's server hands over beside the request; it knows the caller's address. */
  fetch(request: Request, env?: object): Response | Promise<Response>;
}
