/** Numbers requests in the order in which they reach the router, relayed ones and runs alike. One for all models. */
export class Arrivals {
  #count = 0;

  next(): number {
    return this.#count++;
  }
}
