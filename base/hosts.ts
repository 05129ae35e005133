/** The name or address in a `Host` header or an authority, lower case, as URLs write it; undefined for none. */
export function hostnameOf(authority: string): string | undefined {
  if (authority === "" || /[\s/?#@\\]/.test(authority)) return undefined;
  const name = URL.parse(`http://${authority}`)?.hostname.replace(/\.+$/, "");
  return name === "" ? undefined : name;
}

/** True for names and addresses that only this host can reach, with or without an IPv6 address's brackets. */
export function isLoopback(hostname: string): boolean {
  return /^(?:(?:[^\s.]+\.)*localhost\.?|\[?::1\]?|127\.\d+\.\d+\.\d+)$/i.test(hostname);
}

/** True when a list names the host: by itself, by `*.` and a domain that it is in, or by `*`. */
export function isListedHost(hostname: string, list: readonly string[]): boolean {
  return list.some((entry) => {
    if (entry === "*") return true;
    if (entry.startsWith("*.")) return hostname.endsWith(entry.slice(1).toLowerCase());
    return hostnameOf(entry.includes(":") && !entry.startsWith("[") ? `[${entry}]` : entry) === hostname;
  });
}
