/** What the page shows, as the part of its address behind `#`. */
export type PageAddress =
  | { readonly view: "playground" | "runs" | "engines" | "charts" | "config" }
  | { readonly view: "run"; readonly id: string }
  | { readonly view: "compare"; readonly ids: readonly [string, string] };

/** Reads `location.hash`; the playground for what is not known. */
export function readAddress(hash: string): PageAddress {
  const [view = "", ...ids] = hash.replace(/^#?\/?/, "").split("/").map(decoded);
  const [first = "", second = ""] = ids;
  if (view === "runs" && first !== "") return { view: "run", id: first };
  if (view === "compare" && first !== "" && second !== "") return { view: "compare", ids: [first, second] };
  if (view === "runs" || view === "engines" || view === "charts" || view === "config") return { view };
  return { view: "playground" };
}

/** The address of a view, to be written into a link. */
export function hashOf(address: PageAddress): string {
  if (address.view === "run") return `#/runs/${encodeURIComponent(address.id)}`;
  if (address.view === "compare") return `#/compare/${address.ids.map(encodeURIComponent).join("/")}`;
  return `#/${address.view}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
