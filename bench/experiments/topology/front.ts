/** What a candidate is judged by. */
export interface FrontPoint {
  /** Less is better. */
  readonly cost: number;
  /** More is better. */
  readonly right: number;
}

/** True where one is at least as good in both, and better in one. */
export function dominates(one: FrontPoint, other: FrontPoint): boolean {
  return one.cost <= other.cost && one.right >= other.right &&
    (one.cost < other.cost || one.right > other.right);
}

/** The points that no other one dominates, the cheapest first (Pareto's front). */
export function paretoFront<Point extends FrontPoint>(points: readonly Point[]): Point[] {
  const sorted = [...points].sort((a, b) => a.cost - b.cost || b.right - a.right);
  const front: Point[] = [];
  for (const point of sorted) {
    const last = front.at(-1);
    if (last === undefined || !dominates(last, point)) front.push(point);
  }
  return front;
}
