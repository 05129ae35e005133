/** Targets that stand in a URL as they are. */
const PLAIN = /^\/[\w\-~!$&'()*+,;=:@/?%.]*$/;
/** What may be a segment that goes up, or stays. */
const DOTS = /\/(?:\.|%2e)/i;

/** What was read last: nearly all requests of a client are for the same. */
let latest = { host: "", target: "", url: "" };

/** The URL of a request; undefined where target and host make none. */
export function requestUrl(target: string, host: string): string | undefined {
  if (latest.target === target && latest.host === host) return latest.url;
  const url = urlOf(target, host);
  if (url !== undefined) latest = { host, target, url };
  return url;
}

function urlOf(target: string, host: string): string | undefined {
  if (!target.startsWith("/") && target !== "*") return httpUrl(target);
  const origin = `http://${host === "" ? "localhost" : host}`;
  const parsed = URL.parse(origin);
  // A host with a path or a user in it would make another URL of the target.
  if (parsed === null || parsed.pathname !== "/" || /[/?#@\\]/.test(host)) return undefined;
  const path = target === "*" ? "/*" : target;
  if (PLAIN.test(path) && !DOTS.test(path)) return origin + path;
  return httpUrl(origin + path);
}

/** The whole URL that proxies' clients send. */
function httpUrl(text: string): string | undefined {
  const url = URL.parse(text);
  return url?.protocol === "http:" || url?.protocol === "https:" ? url.href : undefined;
}
