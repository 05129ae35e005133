import type { Membership } from "../../router/served/served_model.ts";

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
