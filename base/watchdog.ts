import { Bag, type Stay } from "./bag.ts";
import type { Clock } from "./clock.ts";

/** The timers of watchdogs: one for all that look at the same clock. */
const ALARMS = new WeakMap<Clock, Alarm>();

/** Whoever waits. */
export interface Watched {
  /** Called when a wait has lasted too long. */
  onLate(): void;
}

/**
 * A time limit that is set anew for every wait, such as every read of a stream. One timer serves all waits of all
 * watchdogs of a clock: it runs out, and is set again for those that are not late yet. Setting and cancelling one for
 * each wait, or for each watchdog, would cost more.
 */
export class Watchdog {
  readonly #alarm: Alarm;
  readonly #watched: Watched;
  #dueMs = Infinity;
  /** Where the alarm keeps it; undefined while nobody waits. */
  stay: Stay<Watchdog> | undefined;

  constructor(clock: Clock, watched: Watched) {
    let alarm = ALARMS.get(clock);
    if (alarm === undefined) ALARMS.set(clock, alarm = new Alarm(clock));
    this.#alarm = alarm;
    this.#watched = watched;
  }

  /** Tells that the wait has lasted too long. */
  onLate(): void {
    this.#watched.onLate();
  }

  /** Clock time at which the wait is late; Infinity between two. */
  get dueMs(): number {
    return this.#dueMs;
  }

  /** Begins or prolongs a wait; it is late at `dueMs` (clock time, Infinity for never). */
  arm(dueMs: number): void {
    this.#dueMs = dueMs;
    this.#alarm.watch(this);
  }

  /** Ends the wait. */
  disarm(): void {
    this.#dueMs = Infinity;
  }

  /** Ends the wait, and the timer if nobody else needs it: no more waits follow. */
  stop(): void {
    this.#dueMs = Infinity;
    this.#alarm.forget(this);
  }
}

/** One timer for many waits: it is due when the first of them is, or was when it was set. */
class Alarm {
  readonly #clock: Clock;
  readonly #dogs = new Bag<Watchdog>();
  /** Time at which the timer is due; Infinity while there is none. */
  #wakeMs = Infinity;
  #cancel: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  watch(dog: Watchdog): void {
    dog.stay ??= this.#dogs.add(dog);
    if (dog.dueMs < this.#wakeMs) this.#setTimer(dog.dueMs);
  }

  forget(dog: Watchdog): void {
    if (this.#remove(dog) && this.#dogs.size === 0) this.#setTimer(Infinity);
  }

  #remove(dog: Watchdog): boolean {
    const { stay } = dog;
    dog.stay = undefined;
    return stay !== undefined && this.#dogs.remove(stay);
  }

  #setTimer(dueMs: number): void {
    if (this.#wakeMs !== Infinity) this.#cancel();
    this.#wakeMs = dueMs;
    if (dueMs === Infinity) return;
    this.#cancel = this.#clock.timer(Math.max(0, dueMs - this.#clock.now()), () => this.#onTimer());
  }

  #onTimer(): void {
    // Due times are compared, not durations: those may differ by a rounding error for ever.
    const wakeMs = this.#wakeMs;
    this.#wakeMs = Infinity;
    let next = Infinity;
    // In the order in which they were armed first.
    const late = this.#dogs.members(({ dueMs }) => {
      if (dueMs > wakeMs) next = Math.min(next, dueMs);
      return dueMs <= wakeMs;
    });
    for (const dog of late) this.#remove(dog);
    this.#setTimer(next);
    for (const dog of late) {
      dog.stop();
      dog.onLate();
    }
  }
}
