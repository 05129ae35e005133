import { RUN_FILTERS, type RunFilter } from "./run_list.ts";

/** Choice among the runs of the list; absent fields choose nothing. */
export interface RunChoice {
  readonly filter?: RunFilter | undefined;
  readonly model?: string | undefined;
  readonly search?: string | undefined;
}

/** What the page shows, as the part of its address behind `#`. */
export type PageAddress =
  | { readonly view: "playground" | "engines" | "charts" | "reports" | "config" }
  | ({ readonly view: "runs" } & RunChoice)
  | { readonly view: "run"; readonly id: string }
  | { readonly view: "compare"; readonly ids: readonly [string, string] };

/** Reads `location.hash`; the playground for what is not known. */
export function readAddress(hash: string): PageAddress {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [view = "", ...ids] = path.split("/").map(decoded);
  const [first = "", second = ""] = ids;
  switch (view) {
    case "runs":
      return first === "" ? { view, ...readChoice(query) } : { view: "run", id: first };
    case "compare":
      return first === "" || second === "" ? { view: "playground" } : { view, ids: [first, second] };
    case "engines":
    case "charts":
    case "reports":
    case "config":
      return { view };
    default:
      return { view: "playground" };
  }
}

/** The address of a view, to be written into a link. */
export function hashOf(address: PageAddress): string {
  if (address.view === "run") return `#/runs/${encodeURIComponent(address.id)}`;
  if (address.view === "compare") return `#/compare/${address.ids.map(encodeURIComponent).join("/")}`;
  if (address.view !== "runs") return `#/${address.view}`;
  const { filter, model, search } = address;
  const chosen = Object.entries({ filter, model, search }).flatMap(([name, value = ""]) =>
    value === "" || (name === "filter" && value === "all") ? [] : [[name, value]]
  );
  return chosen.length === 0 ? "#/runs" : `#/runs?${new URLSearchParams(chosen)}`;
}

function readChoice(query: string): RunChoice {
  const asked = new URLSearchParams(query);
  const filter = RUN_FILTERS.find((one) => one !== "all" && one === asked.get("filter"));
  const [model, search] = ["model", "search"].map((name) => asked.get(name) ?? "");
  return {
    ...(filter === undefined ? {} : { filter }),
    ...(model ? { model } : {}),
    ...(search ? { search } : {}),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
