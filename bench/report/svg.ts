import type { Report } from "./report.ts";

/** A report's plot as an SVG document, its title and origin in it. The plotting library is loaded only here. */
export async function svgOf(report: Report): Promise<string> {
  const { compile } = await import("vega-lite");
  const { parse, View } = await import("vega");
  const titled = {
    ...report.plot,
    title: {
      text: report.title,
      subtitle: report.origin.split("; "),
      anchor: "start",
      fontSize: 15,
      subtitleColor: GREY,
    },
    background: "white",
    padding: 12,
    config: {
      font: FONT,
      view: { stroke: "transparent" },
      axis: {
        gridColor: "#e8e8e8",
        domainColor: GREY,
        tickColor: GREY,
        labelFontSize: 11,
        titleFontSize: 11,
        labelLimit: 0,
      },
      legend: { labelFontSize: 11, titleFontSize: 11, labelLimit: 0, orient: "bottom" },
      header: { labelFontSize: 12, labelFontWeight: "bold", title: null },
      range: { category: PALETTE },
    },
  } as const;
  const view = new View(parse(compile(titled).spec), { renderer: "none" });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}

const FONT = "Helvetica, Arial, sans-serif";
const GREY = "#666666";

/** Okabe and Ito's colours, which most colour-blind people can tell apart. */
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999"];
