/** One line of Prometheus' text format. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of a text in Prometheus' format; lines that are none are left out. */
export function readMetrics(text: string): readonly Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, labels = "", value = ""] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/s.exec(line) ?? [];
    if (name === undefined) return [];
    return [{ name, labels: readLabels(labels), value: value === "+Inf" ? Infinity : Number(value) }];
  });
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/gs)) {
    labels[name] = value.replace(/\\(.)/gs, (_, char: string) => char === "n" ? "\n" : char);
  }
  return labels;
}

/** Sum of the samples of a name that have these labels. */
export function sumOfSamples(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  const wanted = Object.entries(labels);
  return samples.reduce(
    (sum, sample) =>
      sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value)
        ? sum + sample.value
        : sum,
    0,
  );
}
