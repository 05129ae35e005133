/**
 * Terms of the Frobenius cosine, from an answer's token features T [n, h]. T̃ is T, each column divided by its norm;
 * U = TᵀT, Corr(U)ᵢⱼ = Uᵢⱼ / √(Uᵢᵢ Uⱼⱼ) = (T̃ᵀT̃)ᵢⱼ; G = T̃T̃ᵀ.
 */
export interface CorrelationTerms {
  /** n. */
  readonly rows: number;
  /** h; of features that may have columns of zeros only, the number of the others. */
  readonly dimensions: number;
  /** ‖Corr(U)‖²_F = ‖G‖²_F. */
  readonly squares: number;
  /** Σ Gᵢᵢ². */
  readonly selfProducts: number;
}

/**
 * Frobenius cosine of correlation matrices (FCS), in [0, 1] (Faster-MoA, section 3.3: token-level, not centred).
 * `product` is ⟨Corr(U), Corr(V)⟩_F = ‖T̃S̃ᵀ‖²_F.
 */
export function frobeniusCosine(a: CorrelationTerms, b: CorrelationTerms, product: number): number {
  return clamp(product / Math.sqrt(a.squares * b.squares));
}

/**
 * FCS without its dependence on length, in [0, 1]: the constant diagonal of the matrices is left out, and a token is
 * not compared with itself (the U-statistic of debiased HSIC and CKA: Song et al. 2007; Nguyen et al. 2021).
 * `shared`: columns that are zero in neither, h by default.
 */
export function unbiasedCosine(
  a: CorrelationTerms,
  b: CorrelationTerms,
  product: number,
  shared: number = a.dimensions,
): number {
  return clamp((product - shared) / Math.sqrt(unbiasedSquares(a) * unbiasedSquares(b)));
}

/** h²/u: how many dimensions the tokens of an answer really take up. */
export function effectiveDimensions(of: CorrelationTerms): number {
  return of.dimensions ** 2 / unbiasedSquares(of);
}

/** The cosine of two vectors of the same length; NaN when one has no length. */
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let dot = 0;
  let left = 0;
  let right = 0;
  for (let i = 0; i < a.length; i++) {
    dot += a[i]! * b[i]!;
    left += a[i]! ** 2;
    right += b[i]! ** 2;
  }
  return dot / Math.sqrt(left * right);
}

/** max(u, v/20) with v = ‖G‖² − h and u = n/(n−1)·(‖G‖² − Σ Gᵢᵢ²) − h; v where n = 1. */
function unbiasedSquares({ rows, dimensions, squares, selfProducts }: CorrelationTerms): number {
  const biased = squares - dimensions;
  if (rows === 1) return biased;
  return Math.max(rows / (rows - 1) * (squares - selfProducts) - dimensions, biased / 20);
}

function clamp(value: number): number {
  return Math.min(1, Math.max(0, value));
}
