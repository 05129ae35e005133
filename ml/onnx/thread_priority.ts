import { setPriority } from "node:os";
import process from "node:process";

/** Niceness of threads that run a model in the background. */
const BACKGROUND_NICENESS = 10;

/**
 * Lets the process's other threads go first where cores are scarce. On Linux a niceness is that of the calling thread
 * and of those that it starts later, ONNX Runtime's; elsewhere it would be that of the whole process, and is left.
 */
export function yieldToOtherThreads(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(0, BACKGROUND_NICENESS);
  } catch {
    // A sandbox may forbid it; the model is then as eager as the router.
  }
}
