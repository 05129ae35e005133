import type { Membership } from "../../router/services.ts";

const none = () => false;

/** Of models whose workers stay as they are. */
export const noMembership: Membership = {
  addWorker: () => {
    throw new Error("This model's workers stay as they are");
  },
  removeWorker: none,
  setDraining: none,
  setDown: none,
};
