/** Options of all commands that deal with a launch. */
export const LAUNCH_NAME_OPTIONS = {
  name: { type: "text", value: "NAME", help: "Which launch, where one user has several; default by default" },
  "state-dir": {
    type: "text",
    value: "FOLDER",
    help: "Where launches keep their state and logs; ~/.local/state/canopy by default (CANOPY_STATE_DIR)",
  },
} as const;

/** Options of `canopy launch` about patience. */
export const PATIENCE_OPTIONS = {
  "ready-timeout": {
    type: "number",
    value: "SECONDS",
    min: 1,
    help: "Longest time without progress while an engine starts; 1200 by default",
  },
  grace: {
    type: "number",
    value: "SECONDS",
    min: 0,
    help: "Time that engines have to end before they are killed; 20 by default",
  },
} as const;
