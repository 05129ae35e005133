/** Coefficients of Acklam's rational approximations (2003): of the centre, and of the tails. */
const CENTRE = {
  above: [
    -3.969683028665376e1,
    2.209460984245205e2,
    -2.759285104469687e2,
    1.38357751867269e2,
    -3.066479806614716e1,
    2.506628277459239,
  ],
  below: [
    -5.447609879822406e1,
    1.615858368580409e2,
    -1.556989798598866e2,
    6.680131188771972e1,
    -1.328068155288572e1,
    1,
  ],
} as const;
const TAIL = {
  above: [
    -7.784894002430293e-3,
    -3.223964580411365e-1,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
  ],
  below: [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1],
} as const;
const TAIL_SHARE = 0.02425;

/** The standard normal number below which a share of all lie, in (0, 1); its relative error is below 1.2e-9. */
export function normalQuantile(share: number): number {
  if (share > 0.5) return -normalQuantile(1 - share);
  if (share < TAIL_SHARE) {
    const q = Math.sqrt(-2 * Math.log(share));
    return polynomial(TAIL.above, q) / polynomial(TAIL.below, q);
  }
  const q = share - 0.5;
  return q * polynomial(CENTRE.above, q * q) / polynomial(CENTRE.below, q * q);
}

/** Value of a polynomial whose highest coefficient comes first. */
function polynomial(coefficients: readonly number[], at: number): number {
  return coefficients.reduce((sum, coefficient) => sum * at + coefficient, 0);
}
