/**
 * A text without its `<think>` blocks. A block that is never closed reaches to the end; a `</think>` that was never
 * opened ends a block that the chat template opened, so everything before it goes. White space at both ends goes, too.
 */
export function stripReasoning(text: string): string {
  const close = text.indexOf("</think>");
  const open = text.indexOf("<think>");
  const openedByTemplate = close >= 0 && (open < 0 || close < open);
  const answer = openedByTemplate ? text.slice(close + "</think>".length) : text;
  return answer.replaceAll(/<think>[^]*?(?:<\/think>|$)/g, "").trim();
}
