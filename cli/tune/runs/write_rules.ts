import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { applyEdits, findNodeAtLocation, getNodeValue, modify, parse, parseTree } from "jsonc-parser";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import { isJsonObject, type Json } from "../../../base/json.ts";
import type { Io } from "../../kit/io.ts";
import type { WrittenRules } from "./run_rules.ts";

/** Members of `early_exit.consensus` that say when a run ends, and how that is watched. */
const DECIDING = [
  ...["agree", "share", "posterior", "skills", "coincidence", "difficulties"],
  // What a rule promises holds for runs that it ends.
  ...["audit", "most_wrong", "usual_votes", "tuned", "undecided", "undecided_level"],
];

/** Place of the rules in a configuration. */
export interface RulesPlace {
  /** A configuration in JSON with comments, which stay. */
  readonly file: string;
  /** Name of the graph; by default the only one. */
  readonly graph: string | undefined;
}

/**
 * Writes rules into a configuration, in the place of those that are there. Throws `invalid_input` (400) for a file that
 * has no such graph, `cannot_write` (500).
 */
export function writeRules({ file, graph }: RulesPlace, rules: WrittenRules, io: Io): void {
  const path = resolve(io.cwd, file);
  try {
    let text = readFileSync(path, "utf8");
    const name = graphIn(file, parse(text), graph);
    const formattingOptions = { insertSpaces: true, tabSize: 2 };
    const at = ["graphs", name, "early_exit"];
    const metric = findNodeAtLocation(parseTree(text)!, [...at, "metric"])?.value;
    const put = (place: readonly string[], value: unknown) => {
      text = applyEdits(text, modify(text, [...at, ...place], value, { formattingOptions }));
    };
    put(["scope"], "run");
    // Rules for whole runs and the metrics of clusters exclude each other.
    put(["metric"], undefined);
    const old = findNodeAtLocation(parseTree(text)!, [...at, "consensus"]);
    if (old?.type === "object") {
      const written: Json = getNodeValue(old);
      // The others, such as whose text is the answer, stay: no rule says anything of them.
      const replaced = isJsonObject(written)
        ? DECIDING.filter((member) => Object.hasOwn(written, member))
        : [];
      for (const member of replaced) put(["consensus", member], undefined);
      for (const [member, value] of Object.entries(rules)) put(["consensus", member], value);
    } else put(["consensus"], rules);
    writeFileSync(path, text);
    const instead = metric === undefined || metric === "none" ? "" : `, in place of metric "${metric}"`;
    io.err.write(`Wrote graphs.${name}.early_exit in ${file}${instead}\n`);
  } catch (cause) {
    if (CanopyError.is(cause)) throw cause;
    throw new CanopyError(`Cannot write ${file}: ${messageOf(cause)}`, {
      code: "cannot_write",
      status: 500,
      cause,
    });
  }
}

function graphIn(file: string, config: Json, wanted: string | undefined): string {
  const graphs = isJsonObject(config) ? config["graphs"] : undefined;
  const names = graphs !== undefined && isJsonObject(graphs) ? Object.keys(graphs) : [];
  const [only] = names;
  if (wanted !== undefined && names.includes(wanted)) return wanted;
  if (wanted === undefined && only !== undefined && names.length === 1) return only;
  throw new CanopyError(
    `Cannot write rules into ${file}: ${
      wanted === undefined ? "name the graph with --graph" : `it has no graph ${wanted}`
    }; its graphs: ${names.join(", ") || "none"}`,
    { code: "invalid_input", status: 400 },
  );
}
