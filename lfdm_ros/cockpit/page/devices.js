// Mapping of a device's axes and buttons: as taught, stored by this browser under the device's id; else the standard layout; else unknown.

import {STANDARD} from "./hands.js";
import {keep, recall} from "./storage.js";

const key = (/** @type {string} */ id) => `lfdm mapping ${id}`;

/** @typedef {import("./hands.js").Mapping} Mapping */

/** Mappings of this session, for browsers without storage. @type {Map<string, Mapping>} */
const taught = new Map();

/** Checks a stored mapping, which another release or a person may have written. @param {Partial<Mapping> | null} mapping @returns {mapping is Mapping} */
function isMapping(mapping) {
  const {steering, throttle, brake, hold} = mapping ?? {};
  const isPedal = (/** @type {import("./hands.js").Pedal | undefined} */ pedal) => pedal && Number.isInteger(pedal.axis ?? pedal.button) && Number.isFinite(1 / (pedal.full - pedal.rest));
  return steering && Number.isInteger(steering.axis) && Number.isFinite(1 / (steering.left - steering.centre))
    && Number.isFinite(1 / (steering.right - steering.centre)) && isPedal(throttle) && isPedal(brake)
    && Array.isArray(hold) && hold.length > 0 && hold.every(Number.isInteger) || false;
}

/** Returns the mapping that was taught for a device; null: none. @param {string} id @returns {Mapping | null} */
export function taughtMapping(id) {
  const known = taught.get(id);
  if (known) return known;
  const mapping = recall(key(id));
  if (!isMapping(mapping)) return null;
  taught.set(id, mapping);
  return mapping;
}

/** Returns the mapping of a pad; null: it must be taught first. @param {{id: string, mapping: string}} pad */
export function mappingOf(pad) {
  return taughtMapping(pad.id) ?? (pad.mapping === "standard" ? STANDARD : null);
}

/**
 * Stores the mapping of a device; null: deletes it.
 * @param {string} id
 * @param {Mapping | null} mapping
 * @returns {boolean} whether it outlasts this page
 */
export function keepMapping(id, mapping) {
  if (mapping) taught.set(id, mapping);
  else taught.delete(id);
  return keep(key(id), mapping);
}

/** Returns the pads that are connected. @returns {Gamepad[]} */
export function connectedPads() {
  return /** @type {Gamepad[]} */ ([...(navigator.getGamepads?.() ?? [])].filter(pad => pad?.connected));
}
