/** Text without the byte order mark that Windows' editors put first. */
export function withoutMark(text: string): string {
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}
