/**
 * How SGLang's servers say that a hand-off between them has failed: each names the step at which it gave up, and
 * neither knows whose fault it was.
 */
const HAND_OFF_FAILURE =
  /KVTransferError|KVPoll\.|(?:Prefill|Decode) (?:bootstrap|transfer|handshake) failed|Lost connection with prefill/;

/** True for the message of a failure that two servers of a pair have with each other. */
export function isHandOffFailure(message: string): boolean {
  return HAND_OFF_FAILURE.test(message);
}
