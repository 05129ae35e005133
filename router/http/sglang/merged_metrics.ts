import { type Labels, labelText } from "../../../base/prometheus.ts";

interface MergedFamily {
  /** `# HELP` and `# TYPE`, of the first page that had them. */
  readonly heads: string[];
  readonly samples: string[];
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S.*)$/;
const HEAD = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*)(?: |$)/;
/** Endings of the series that belong to a histogram or a summary. */
const PARTS = ["", "_bucket", "_count", "_sum", "_total", "_created"];

/** Several pages in Prometheus' text format as one: each family once, its series told apart by added labels. */
export class MergedMetrics {
  readonly #families = new Map<string, MergedFamily>();

  /** Adds a page; lines that are no metrics are dropped. */
  add(page: string, labels: Labels): void {
    const added = labelText(labels);
    const headed = new Set<string>();
    let current = "";
    for (const line of page.split("\n")) {
      const head = HEAD.exec(line);
      if (head !== null) {
        current = head[2]!;
        const { heads } = this.#family(current);
        const key = `${head[1]} ${current}`;
        if (!headed.has(key) && !heads.some((known) => known.startsWith(`# ${key}`))) heads.push(line);
        headed.add(key);
        continue;
      }
      const sample = SAMPLE.exec(line);
      if (sample === null) continue;
      const [, name = "", own = "", value = ""] = sample;
      const inside = own.trim().replace(/,$/, "");
      const family = PARTS.some((part) => name === current + part) ? current : name;
      this.#family(family).samples.push(`${name}{${added}${inside === "" ? "" : `,${inside}`}} ${value}`);
    }
  }

  toString(): string {
    const lines = [...this.#families.values()].flatMap(({ heads, samples }) =>
      samples.length === 0 ? [] : [...heads, ...samples]
    );
    return lines.map((line) => `${line}\n`).join("");
  }

  #family(name: string): MergedFamily {
    let family = this.#families.get(name);
    if (family === undefined) this.#families.set(name, family = { heads: [], samples: [] });
    return family;
  }
}
