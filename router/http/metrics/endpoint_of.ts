/** The gateway's word for a path: `chat` for `/v1/chat/completions`, else the path without its version. */
export function endpointOf(path: string): string {
  const plain = path.replace(/^\/(v1\/)?/, "");
  return plain === "chat/completions" ? "chat" : plain.replaceAll("/", "_");
}
