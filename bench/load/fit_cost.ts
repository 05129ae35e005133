import { type CostParameters, kernelMs, OVERHEADS } from "../../simulator/engine/cost.ts";

/** Measured time to the first token of a request that was alone, in ms. */
export interface PrefillPoint {
  /** Of the prompt, as the server counts them, less those that it had cached. */
  readonly tokens: number;
  readonly ms: number;
}

/** Measured time of one step in which only streams decode, in ms. */
export interface DecodePoint {
  readonly streams: number;
  /** Tokens before the new ones, of all streams together. */
  readonly context: number;
  readonly ms: number;
}

/** Parameters that were fitted. */
export type FittedCost = Omit<CostParameters, "kvTokens" | "kvBytes">;

/** A measured point beside what the parameters give for it; durations in ms. */
export interface Residual<Point> {
  readonly point: Point;
  readonly fittedMs: number;
  /** Fitted over measured, less 1. */
  readonly error: number;
}

/**
 * Fits the simulator's cost model to what was measured, by relative squares. From outside an engine's overhead of a step
 * cannot be told from its kernels: it is taken to be the simulator's own, or nothing where the steps are shorter than
 * that. At least two numbers of streams and three lengths of prompts are needed.
 */
export function fitCost(prefills: readonly PrefillPoint[], decodes: readonly DecodePoint[]): FittedCost {
  const assumed = fitDecode(decodes, OVERHEADS);
  const isPossible = assumed.d0 > 0 && assumed.d1 > 0;
  const overheads = isPossible ? OVERHEADS : { stepMs: 0, sequenceMs: 0 };
  const decode = isPossible ? assumed : fitDecode(decodes, overheads);
  const { stepMs, sequenceMs } = overheads;
  return { ...decode, ...fitPrefill(prefills, stepMs + sequenceMs), stepMs, sequenceMs };
}

/** Points of prefill beside the fit. */
export function prefillResiduals(
  cost: FittedCost,
  points: readonly PrefillPoint[],
): Residual<PrefillPoint>[] {
  return points.map((point) =>
    residual(
      point,
      cost.requestMs + stepMsOf(cost, {
        prefillTokens: point.tokens,
        prefillAttention: point.tokens * point.tokens / 2,
        decodes: 0,
        decodeContext: 0,
        sequences: 1,
      }),
    )
  );
}

/** Points of decode beside the fit. */
export function decodeResiduals(cost: FittedCost, points: readonly DecodePoint[]): Residual<DecodePoint>[] {
  return points.map((point) =>
    residual(
      point,
      stepMsOf(cost, {
        prefillTokens: 0,
        prefillAttention: 0,
        decodes: point.streams,
        decodeContext: point.context,
        sequences: point.streams,
      }),
    )
  );
}

function stepMsOf(cost: FittedCost, load: Parameters<typeof kernelMs>[1]): number {
  return kernelMs({ ...cost, kvTokens: 0, kvBytes: 0 }, load) + cost.stepMs +
    cost.sequenceMs * load.sequences;
}

function residual<Point extends { readonly ms: number }>(point: Point, fittedMs: number): Residual<Point> {
  return { point, fittedMs, error: fittedMs / point.ms - 1 };
}

function fitDecode(
  points: readonly DecodePoint[],
  { stepMs, sequenceMs }: Pick<CostParameters, "stepMs" | "sequenceMs">,
): Pick<CostParameters, "d0" | "d1" | "d2"> {
  const rows = points.map(({ streams, context, ms }) => ({
    factors: [1, streams, context],
    value: ms - stepMs - sequenceMs * streams,
    weight: 1 / ms,
  }));
  const [d0 = 0, d1 = 0, d2 = 0] = nonNegativeFit(rows).factors;
  return { d0, d1, d2 };
}

/** Places of the bend that are tried, and its sharpness. */
const BENDS = { grid: 24, rounds: 8, least: 4, sharpest: 6 };

/**
 * With the place k of the bend and its sharpness q given the model is a sum: request + b (k^q + n^q)^(1/q) + d n^2 / 2.
 * Those two are searched on a grid that closes in on the best.
 */
function fitPrefill(
  points: readonly PrefillPoint[],
  overheadMs: number,
): Pick<CostParameters, "f" | "b" | "d" | "q" | "requestMs"> {
  const fitAt = (k: number, q: number) =>
    nonNegativeFit(points.map(({ tokens, ms }) => ({
      factors: [1, bent(tokens, k, q), tokens * tokens / 2],
      value: ms - overheadMs,
      weight: 1 / ms,
    })));
  const longest = Math.max(...points.map(({ tokens }) => tokens));
  let area: { readonly k: Range; readonly q: Range } = {
    k: [Math.log(BENDS.least), Math.log(2 * longest)],
    q: [1, BENDS.sharpest],
  };
  let best = { k: 1, q: 1, ...fitAt(1, 1) };
  for (let round = 0; round < BENDS.rounds; round++) {
    for (const logK of spread(area.k)) {
      for (const q of spread(area.q)) {
        const fit = fitAt(Math.exp(logK), q);
        if (fit.squares < best.squares) best = { k: Math.exp(logK), q, ...fit };
      }
    }
    area = { k: around(Math.log(best.k), area.k), q: around(best.q, area.q) };
  }
  const [requestMs = 0, b = 0, d = 0] = best.factors;
  return { requestMs, b, d, f: b * best.k, q: best.q };
}

type Range = readonly [low: number, high: number];

function spread([low, high]: Range): number[] {
  return Array.from({ length: BENDS.grid }, (_, at) => low + (high - low) * at / (BENDS.grid - 1));
}

/** A part of the range around its best value, as wide as some steps of the grid. */
function around(best: number, [low, high]: Range): Range {
  const half = 3 * (high - low) / BENDS.grid;
  return [Math.max(low, best - half), Math.min(high, best + half)];
}

function bent(tokens: number, k: number, q: number): number {
  // Scaled, so that no power is too large.
  const most = Math.max(tokens, k);
  return most * Math.pow(Math.pow(k / most, q) + Math.pow(tokens / most, q), 1 / q);
}

interface Row {
  readonly factors: readonly number[];
  readonly value: number;
  readonly weight: number;
}

interface Fit {
  readonly factors: readonly number[];
  readonly squares: number;
}

/** Least squares in which no factor is negative: of all choices of factors that may be above 0 the best. */
function nonNegativeFit(rows: readonly Row[]): Fit {
  const count = rows[0]?.factors.length ?? 0;
  let best: Fit = { factors: new Array<number>(count).fill(0), squares: Infinity };
  for (let choice = 0; choice < 1 << count; choice++) {
    const used = Array.from({ length: count }, (_, at) => at).filter((at) => (choice >> at & 1) === 1);
    const solved = leastSquares(rows, used);
    if (solved === undefined || solved.some((factor) => factor < 0)) continue;
    const factors = Array.from({ length: count }, (_, at) => solved[used.indexOf(at)] ?? 0);
    const squares = rows.reduce((sum, row) => {
      const fitted = row.factors.reduce((all, factor, at) => all + factor * factors[at]!, 0);
      return sum + ((fitted - row.value) * row.weight) ** 2;
    }, 0);
    if (squares < best.squares) best = { factors, squares };
  }
  return best;
}

/** Solves the normal equations of these columns; undefined where they do not differ. */
function leastSquares(rows: readonly Row[], used: readonly number[]): number[] | undefined {
  const scales = used.map((at) => Math.max(1e-300, ...rows.map(({ factors }) => Math.abs(factors[at]!))));
  const matrix = used.map((row, i) => [
    ...used.map((column, j) =>
      rows.reduce(
        (sum, { factors, weight }) =>
          sum + weight * weight * factors[row]! * factors[column]! / scales[i]! / scales[j]!,
        0,
      )
    ),
    rows.reduce(
      (sum, { factors, value, weight }) => sum + weight * weight * factors[row]! * value / scales[i]!,
      0,
    ),
  ]);
  for (let at = 0; at < used.length; at++) {
    const pivot = matrix[at]!;
    if (Math.abs(pivot[at]!) < 1e-14) return undefined;
    for (const [other, line] of matrix.entries()) {
      if (other === at) continue;
      const times = line[at]! / pivot[at]!;
      for (let column = at; column <= used.length; column++) line[column]! -= times * pivot[column]!;
    }
  }
  return matrix.map((line, at) => line[used.length]! / line[at]! / scales[at]!);
}
