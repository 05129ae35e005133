import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import {
  MAX_SOURCE_DEPTH,
  MAX_SOURCE_NODES,
  type SourceNode,
  type SourceText,
  type SyntaxProblem,
} from "./source.ts";

/** Sentences for jsonc-parser's codes, for somebody who edits a file. */
const SENTENCES: Readonly<Record<string, string>> = {
  InvalidSymbol: "a value was expected here: texts need double quotes",
  InvalidNumberFormat: "this is not a number that JSON knows",
  PropertyNameExpected: "a key in double quotes was expected here",
  ValueExpected: "a value was expected here",
  ColonExpected: "a colon was expected after the key",
  CommaExpected: "a comma was expected before this",
  CloseBraceExpected: "a closing brace } was expected here",
  CloseBracketExpected: "a closing bracket ] was expected here",
  EndOfFileExpected: "the file should end here: there is text after the closing brace",
  UnexpectedEndOfComment: "this comment is not closed",
  UnexpectedEndOfString: "this text is not closed: a double quote is missing",
  UnexpectedEndOfNumber: "this number is not complete",
  InvalidUnicode: "this \\u escape is not complete",
  InvalidEscapeCharacter: "this escape is not one that JSON knows",
  InvalidCharacter: "this character must be escaped inside a text",
};

/** Reads JSON with comments and trailing commas. */
export function parseJsonc(text: string): SourceText {
  const deep = firstTooDeep(text);
  if (deep !== undefined) {
    return {
      root: undefined,
      problems: [{ offset: deep, message: `values are nested deeper than ${MAX_SOURCE_DEPTH} levels` }],
    };
  }
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true });
  const problems: SyntaxProblem[] = errors.map(({ error, offset }) => ({
    offset,
    message: SENTENCES[printParseErrorCode(error)] ?? "this is not valid JSON",
  }));
  if (tree === undefined && isEmpty(text)) {
    return { root: undefined, problems: [{ offset: 0, message: "the file is empty" }] };
  }
  // One slip makes a parser stumble several times: the first report is the one that helps.
  if (tree === undefined || problems.length > 0) return { root: undefined, problems: problems.slice(0, 1) };
  const state = { problems, nodes: 0 };
  const root = convert(tree, state);
  return { root: state.problems.length === 0 ? root : undefined, problems: state.problems };
}

function convert(node: Node, state: { problems: SyntaxProblem[]; nodes: number }): SourceNode {
  const { offset } = node;
  if (++state.nodes === MAX_SOURCE_NODES) {
    state.problems.push({ offset, message: `the file has more than ${MAX_SOURCE_NODES} values` });
  }
  if (node.type === "array") {
    return { kind: "list", offset, items: (node.children ?? []).map((child) => convert(child, state)) };
  }
  if (node.type !== "object") {
    const value: unknown = node.value;
    if (
      value === null || typeof value === "boolean" || typeof value === "string" ||
      (typeof value === "number" && Number.isFinite(value))
    ) return { kind: "scalar", offset, value };
    state.problems.push({ offset, message: "this number is too large" });
    return { kind: "scalar", offset, value: null };
  }
  const entries = new Map<string, { offset: number; node: SourceNode }>();
  for (const property of node.children ?? []) {
    const [key, value] = property.children ?? [];
    if (key === undefined || value === undefined) continue;
    const name = String(key.value);
    if (entries.has(name)) {
      state.problems.push({ offset: key.offset, message: `the key ${JSON.stringify(name)} is given twice` });
    }
    if (name === "__proto__") {
      state.problems.push({ offset: key.offset, message: `"__proto__" cannot be used as a key` });
    }
    entries.set(name, { offset: key.offset, node: convert(value, state) });
  }
  return { kind: "map", offset, entries };
}

/** Offset of the first bracket beyond the allowed depth: the parser would recurse into it. */
function firstTooDeep(text: string): number | undefined {
  let depth = 0;
  const token = /"(?:[^"\\\n\r]|\\.)*"?|\/\/.*|\/\*[^]*?\*\/|[[\]{}]/g;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const first = match[0];
    if (first === "[" || first === "{") {
      if (++depth > MAX_SOURCE_DEPTH) return match.index;
    } else if (first === "]" || first === "}") depth--;
  }
  return undefined;
}

/** True for a text with nothing but comments. */
function isEmpty(text: string): boolean {
  return text.replace(/\/\/.*|\/\*[^]*?\*\//g, "").trim() === "";
}
